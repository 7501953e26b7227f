import { lstat, opendir } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { DuolaneError } from '../../../errors.ts';
import { type Glob, globMatcher } from '../../permissions/glob-pattern.ts';
import { realPath } from '../../permissions/path-rules.ts';
import { asString } from '../../../json.ts';
import { type AgentTool, failedOutcome, success } from '../types.ts';
import { LineSearch } from './line-search.ts';
import { openToRead, readTextFile } from './open-file.ts';
import { hiddenBelow, locate, pathFacts, type Workspace } from './workspace.ts';

const SKIPPED = new Set(['.git', 'node_modules']);
const MAX_VISITED = 50_000;
const MAX_FOUND = 200;
const MAX_FILE_BYTES = 2 * 1024 * 1024;
const MAX_LINE_CHARS = 500;
/** How long one search may take. */
const SEARCH_MS = 60_000;

/** What a search left out: told at the end, so that "not found" is not taken for "not there". */
class LeftOut {
  unreadable = 0;
  hidden = 0;
  large = 0;
  /** The limit of entries was reached. */
  rest = false;

  get notes(): string {
    return [
      this.unreadable > 0 && `(${this.unreadable} files or folders could not be read)`,
      this.hidden > 0 && `(${this.hidden} files or folders are kept back by a rule of Read)`,
      this.large > 0 && `(${this.large} files over ${MAX_FILE_BYTES} bytes were not searched)`,
      this.rest && `(only the first ${MAX_VISITED} files and folders were looked at)`,
    ]
      .filter((note) => note !== false)
      .map((note) => `\n${note}`)
      .join('');
  }
}

/**
 * Every file below `root`, as paths with `/`. Links are not followed. What cannot be read, what has
 * gone meanwhile and what a rule of `Read` hides is counted, and the search goes on.
 */
async function* filesBelow(
  root: string,
  leftOut: LeftOut,
  hidden: (path: string) => boolean,
  signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  const folders = [root];
  let visited = 0;
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    signal.throwIfAborted();
    try {
      for await (const entry of await opendir(folder)) {
        if (++visited > MAX_VISITED) {
          leftOut.rest = true;
          return;
        }
        if (SKIPPED.has(entry.name) && entry.isDirectory()) continue;
        if (!entry.isDirectory() && !entry.isFile()) continue;
        const full = join(folder, entry.name);
        const path = relative(root, full).split(sep).join('/');
        if (hidden(path)) leftOut.hidden++;
        else if (entry.isDirectory()) folders.push(full);
        else yield path;
      }
    } catch (reason) {
      // The folder asked for must be there; one below it may be closed to us, or have gone.
      if (folder === root || !isFileError(reason)) throw reason;
      leftOut.unreadable++;
    }
  }
}

const isFileError = (reason: unknown): boolean =>
  reason instanceof Error && 'syscall' in reason && 'code' in reason;

const folder = {
  type: 'string',
  description: 'Folder to look in; the working directory by default',
};

/** Undefined: a pattern with more choices than we follow. */
function readGlob(pattern: string): Glob | undefined {
  try {
    return globMatcher(pattern);
  } catch {
    // The caller reports it to the model.
    return undefined;
  }
}

export const globTool = (place: Workspace): AgentTool => ({
  spec: {
    name: 'Glob',
    description: 'Lists files whose path matches a pattern such as src/**/*.ts.',
    input_schema: {
      type: 'object',
      properties: { pattern: { type: 'string' }, path: folder },
      required: ['pattern'],
    },
  },
  readOnly: true,
  facts: (input) => ({ ...pathFacts(place, asString(input['path']), false), alsoAs: 'Read' }),
  async call(input, { signal, path: real }) {
    const wanted = readGlob(asString(input['pattern']));
    if (!wanted) return failedOutcome('the pattern has too many choices in braces: write fewer');
    const root = real ?? realPath(locate(place, asString(input['path'])));
    const hidden = hiddenBelow(place, locate(place, asString(input['path'])), 'Glob');
    const found: string[] = [];
    const leftOut = new LeftOut();
    let more = false;
    for await (const path of filesBelow(root, leftOut, hidden, signal)) {
      if (!wanted(path)) continue;
      more = found.length >= MAX_FOUND;
      if (more) break;
      found.push(path);
    }
    const text = (found.toSorted().join('\n') || 'No files found') + leftOut.notes;
    return success(more ? `${text}\n(more than ${MAX_FOUND}; narrow the pattern)` : text, {
      filenames: found,
    });
  },
});

export const grepTool = (
  place: Workspace,
  { limitMs = SEARCH_MS }: { readonly limitMs?: number } = {},
): AgentTool => ({
  spec: {
    name: 'Grep',
    description: 'Searches files for lines that match a regular expression.',
    input_schema: {
      type: 'object',
      properties: {
        pattern: { type: 'string', description: 'A JavaScript regular expression' },
        path: folder,
        glob: { type: 'string', description: 'Only files whose path matches, such as *.ts' },
      },
      required: ['pattern'],
    },
  },
  readOnly: true,
  facts: (input) => ({ ...pathFacts(place, asString(input['path']), false), alsoAs: 'Read' }),
  async call(input, { signal, path: real }) {
    let pattern: RegExp;
    try {
      pattern = new RegExp(asString(input['pattern']));
    } catch (cause) {
      return failedOutcome(`invalid regular expression: ${String(cause)}`);
    }
    const glob = asString(input['glob']);
    const fits = glob === '' ? () => true : readGlob(glob.includes('/') ? glob : `**/${glob}`);
    if (!fits) return failedOutcome('glob has too many choices in braces: write fewer');
    const limit = AbortSignal.timeout(limitMs);
    const root = real ?? realPath(locate(place, asString(input['path'])));
    const hidden = hiddenBelow(place, locate(place, asString(input['path'])), 'Grep');
    try {
      const either = AbortSignal.any([signal, limit]);
      return success(await grep(pattern, root, fits, hidden, either));
    } catch (reason) {
      signal.throwIfAborted();
      if (!limit.aborted) throw reason;
      return failedOutcome(
        `Grep timed out after ${limitMs} ms: simplify the pattern, or search fewer files`,
      );
    }
  },
});

async function grep(
  pattern: RegExp,
  root: string,
  fits: Glob,
  hidden: (path: string) => boolean,
  signal: AbortSignal,
): Promise<string> {
  await using search = new LineSearch(pattern, MAX_FOUND, signal);
  const found: string[] = [];
  const leftOut = new LeftOut();
  const look = async (path: string): Promise<void> => {
    const file = path === '' ? root : join(root, path);
    let text: string;
    try {
      await using handle = await openToRead(file);
      text = await readTextFile(handle, { path: file, maxBytes: MAX_FILE_BYTES, signal });
    } catch (reason) {
      signal.throwIfAborted();
      if (path === '') throw reason;
      if (reason instanceof DuolaneError && reason.code === 'too_large') leftOut.large++;
      else leftOut.unreadable++;
      return;
    }
    const lines = text.split('\n');
    for (const at of await search.find(text)) {
      found.push(`${path || root}:${at + 1}:${(lines[at] ?? '').slice(0, MAX_LINE_CHARS)}`);
    }
  };
  if ((await lstat(root)).isDirectory()) {
    for await (const path of filesBelow(root, leftOut, hidden, signal)) {
      if (found.length >= MAX_FOUND) break;
      if (fits(path)) await look(path);
    }
  } else await look('');
  const text = (found.slice(0, MAX_FOUND).join('\n') || 'No matches found') + leftOut.notes;
  return found.length >= MAX_FOUND ? `${text}\n(cut at ${MAX_FOUND} matches)` : text;
}
