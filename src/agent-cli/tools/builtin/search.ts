import { lstat, opendir } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { DuolaneError, errorMessage } from '../../../errors.ts';
import { type Glob, globMatcher } from '../../permissions/glob-pattern.ts';
import { realPath } from '../../permissions/path-rules.ts';
import { asString } from '../../../json.ts';
import { type AgentTool, failedOutcome, success } from '../types.ts';
import { LineSearch } from './line-search.ts';
import { openToRead, readTextFile } from './open-file.ts';
import { hiddenBelow, locate, pathFacts, type Workspace } from './workspace.ts';

const SKIPPED_FOLDERS = new Set(['.git', 'node_modules']);
const MAX_VISITED = 50_000;
const MAX_FOUND = 200;
const MAX_FILE_BYTES = 2 * 1024 * 1024;
const MAX_LINE_CHARS = 500;
/** The timeout of one search. */
const SEARCH_MS = 60_000;

/**
 * Counts what a search skipped. The model gets the counts with the result, so that it does not take
 * "not found" for "does not exist".
 */
class Skipped {
  unreadable = 0;
  hidden = 0;
  large = 0;
  /** The search ended at `MAX_VISITED`. */
  rest = false;

  get notes(): string {
    return [
      this.unreadable > 0 && `(${this.unreadable} files or folders could not be read)`,
      this.hidden > 0 && `(${this.hidden} files or folders are hidden by a rule of Read)`,
      this.large > 0 && `(${this.large} files over ${MAX_FILE_BYTES} bytes were not searched)`,
      this.rest && `(only the first ${MAX_VISITED} files and folders were searched)`,
    ]
      .filter((note) => note !== false)
      .map((note) => `\n${note}`)
      .join('');
  }
}

/**
 * Yields the relative path of every file below `root`, with `/`. Links are not followed. Entries
 * that cannot be read, were deleted meanwhile or are hidden by a rule of `Read` are counted and
 * skipped.
 */
async function* filesBelow(
  root: string,
  skipped: Skipped,
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
          skipped.rest = true;
          return;
        }
        if (SKIPPED_FOLDERS.has(entry.name) && entry.isDirectory()) continue;
        if (!entry.isDirectory() && !entry.isFile()) continue;
        const full = join(folder, entry.name);
        const path = relative(root, full).split(sep).join('/');
        if (hidden(path)) skipped.hidden++;
        else if (entry.isDirectory()) folders.push(full);
        else yield path;
      }
    } catch (reason) {
      // `root` must be readable. A folder below it may not be, or was deleted meanwhile.
      if (folder === root || !isFileError(reason)) throw reason;
      skipped.unreadable++;
    }
  }
}

const isFileError = (reason: unknown): boolean =>
  reason instanceof Error && 'syscall' in reason && 'code' in reason;

const folder = {
  type: 'string',
  description: 'Folder to search; the working directory by default',
};

/** Compiles a pattern. Undefined: it has too many alternatives. */
function readGlob(pattern: string): Glob | undefined {
  try {
    return globMatcher(pattern);
  } catch {
    // The caller reports it to the model.
    return undefined;
  }
}

export const globTool = (workspace: Workspace): AgentTool => ({
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
  facts: (input) => ({ ...pathFacts(workspace, asString(input['path']), false), alsoAs: 'Read' }),
  async call(input, { signal, path: real }) {
    const wanted = readGlob(asString(input['pattern']));
    if (!wanted) return failedOutcome('pattern has too many alternatives in braces; use fewer');
    const root = real ?? realPath(locate(workspace, asString(input['path'])));
    const hidden = hiddenBelow(workspace, asString(input['path']), root, 'Glob');
    const found: string[] = [];
    const skipped = new Skipped();
    let more = false;
    for await (const path of filesBelow(root, skipped, hidden, signal)) {
      if (!wanted(path)) continue;
      more = found.length >= MAX_FOUND;
      if (more) break;
      found.push(path);
    }
    const text = (found.toSorted().join('\n') || 'No files found') + skipped.notes;
    return success(more ? `${text}\n(more than ${MAX_FOUND}; narrow the pattern)` : text, {
      filenames: found,
    });
  },
});

export const grepTool = (
  workspace: Workspace,
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
  facts: (input) => ({ ...pathFacts(workspace, asString(input['path']), false), alsoAs: 'Read' }),
  async call(input, { signal, path: real }) {
    let pattern: RegExp;
    try {
      pattern = new RegExp(asString(input['pattern']));
    } catch (cause) {
      return failedOutcome(
        `invalid pattern: expected a JavaScript regular expression: ${errorMessage(cause)}`,
      );
    }
    const glob = asString(input['glob']);
    const fits = glob === '' ? () => true : readGlob(glob.includes('/') ? glob : `**/${glob}`);
    if (!fits) return failedOutcome('glob has too many alternatives in braces; use fewer');
    const limit = AbortSignal.timeout(limitMs);
    const root = real ?? realPath(locate(workspace, asString(input['path'])));
    const hidden = hiddenBelow(workspace, asString(input['path']), root, 'Grep');
    try {
      const either = AbortSignal.any([signal, limit]);
      return success(await grep(pattern, root, fits, hidden, either));
    } catch (reason) {
      signal.throwIfAborted();
      if (!limit.aborted) throw reason;
      return failedOutcome(
        `Grep timed out after ${limitMs} ms; simplify the pattern, or search fewer files`,
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
  const skipped = new Skipped();
  const look = async (path: string): Promise<void> => {
    const file = path === '' ? root : join(root, path);
    let text: string;
    try {
      await using handle = await openToRead(file);
      text = await readTextFile(handle, { path: file, maxBytes: MAX_FILE_BYTES, signal });
    } catch (reason) {
      signal.throwIfAborted();
      if (path === '') throw reason;
      if (reason instanceof DuolaneError && reason.code === 'too_large') skipped.large++;
      else skipped.unreadable++;
      return;
    }
    const lines = text.split('\n');
    for (const at of await search.find(text)) {
      found.push(`${path || root}:${at + 1}:${(lines[at] ?? '').slice(0, MAX_LINE_CHARS)}`);
    }
  };
  if ((await lstat(root)).isDirectory()) {
    for await (const path of filesBelow(root, skipped, hidden, signal)) {
      if (found.length >= MAX_FOUND) break;
      if (fits(path)) await look(path);
    }
  } else await look('');
  const text = (found.slice(0, MAX_FOUND).join('\n') || 'No matches found') + skipped.notes;
  return found.length >= MAX_FOUND ? `${text}\n(only the first ${MAX_FOUND} matches)` : text;
}
