import { opendir, readFile, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { str } from '../../read.ts';
import { globToRegExp } from '../../rules.ts';
import { type AgentTool, failure, success } from '../types.ts';
import { locate, pathFacts, type Place } from './place.ts';

const SKIPPED = new Set(['.git', 'node_modules']);
const MAX_VISITED = 50_000;
const MAX_FOUND = 200;
const MAX_FILE_BYTES = 2 * 1024 * 1024;

/** Every file below `root`, as paths with `/`; ends quietly after 50,000. */
async function* filesBelow(
  root: string,
  signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  const folders = [root];
  let visited = 0;
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    signal.throwIfAborted();
    for await (const entry of await opendir(folder)) {
      if (++visited > MAX_VISITED) return;
      const path = join(folder, entry.name);
      if (entry.isDirectory() && !SKIPPED.has(entry.name)) folders.push(path);
      else if (entry.isFile()) yield relative(root, path).split(sep).join('/');
    }
  }
}

const folder = {
  type: 'string',
  description: 'Folder to look in; the working directory by default',
};

export const globTool = (place: Place): AgentTool => ({
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
  facts: (input) => pathFacts(place, str(input['path']), false),
  async call(input, { signal }) {
    const wanted = globToRegExp(str(input['pattern']));
    const found: string[] = [];
    let more = false;
    for await (const path of filesBelow(locate(place, str(input['path'])), signal)) {
      if (!wanted.test(path)) continue;
      more = found.length >= MAX_FOUND;
      if (more) break;
      found.push(path);
    }
    const text = found.toSorted().join('\n') || 'No files found';
    return success(more ? `${text}\n(more than ${MAX_FOUND}; narrow the pattern)` : text, {
      filenames: found,
    });
  },
});

export const grepTool = (place: Place): AgentTool => ({
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
  facts: (input) => pathFacts(place, str(input['path']), false),
  async call(input, { signal }) {
    let wanted: RegExp;
    try {
      wanted = new RegExp(str(input['pattern']));
    } catch (cause) {
      return failure(`pattern is no regular expression: ${String(cause)}`);
    }
    const glob = str(input['glob']);
    const fits = glob === '' ? undefined : globToRegExp(glob.includes('/') ? glob : `**/${glob}`);
    const root = locate(place, str(input['path']));
    const found: string[] = [];
    const isFile = (await stat(root)).isFile();
    for await (const path of isFile ? [''] : filesBelow(root, signal)) {
      if (found.length >= MAX_FOUND) break;
      if (fits && !fits.test(path)) continue;
      const file = join(root, path);
      if ((await stat(file)).size > MAX_FILE_BYTES) continue;
      const lines = (await readFile(file, { encoding: 'utf8', signal })).split('\n');
      lines.forEach((line, i) => {
        if (wanted.test(line)) found.push(`${path || root}:${i + 1}:${line.slice(0, 500)}`);
      });
    }
    const text = found.slice(0, MAX_FOUND).join('\n') || 'No matches found';
    return success(found.length >= MAX_FOUND ? `${text}\n(cut at ${MAX_FOUND} matches)` : text);
  },
});
