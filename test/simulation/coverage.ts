import { readdirSync, readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { join } from 'node:path';

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly {
    readonly ranges: readonly {
      readonly startOffset: number;
      readonly endOffset: number;
      readonly count: number;
    }[];
  }[];
}

/** How many lines of a folder of the product ran, of those in the bundle. */
export interface FolderCoverage {
  readonly folder: string;
  readonly lines: number;
  readonly ran: number;
}

/** Reads what V8 recorded in `records` (`NODE_V8_COVERAGE`) while the bundle ran. */
export function readCoverage(module: string, records: string): readonly FolderCoverage[] {
  const text = readFileSync(module, 'utf8');
  const map = new SourceMap(
    JSON.parse(readFileSync(`${module}.map`, 'utf8')) as ConstructorParameters<typeof SourceMap>[0],
  );
  const scripts = readdirSync(records).flatMap((name) => {
    const { result } = JSON.parse(readFileSync(join(records, name), 'utf8')) as {
      result: readonly ScriptCoverage[];
    };
    return result.filter(({ url }) => url.endsWith('/simulation.mjs')).map(ranOf(text.length));
  });
  const found = new Map<string, { lines: number; ran: number }>();
  let offset = 0;
  for (const [number, line] of text.split('\n').entries()) {
    const column = line.search(/[^\s}\])]/);
    const at = offset + Math.max(0, column);
    offset += line.length + 1;
    const entry = column < 0 ? undefined : map.findEntry(number, column);
    const source = entry && 'originalSource' in entry ? String(entry.originalSource) : '';
    const [, folder] = /\/(src\/[^.]*)\/[^/]*$/.exec(`/${source}`) ?? [];
    if (folder === undefined) continue;
    const known = found.get(folder) ?? { lines: 0, ran: 0 };
    found.set(folder, known);
    known.lines++;
    if (scripts.some((ran) => ran[at] === 1)) known.ran++;
  }
  return [...found]
    .map(([folder, counts]) => ({ folder, ...counts }))
    .toSorted((one, other) => (one.folder < other.folder ? -1 : 1));
}

/** Marks the characters that ran: an inner range replaces the one around it. */
const ranOf =
  (length: number) =>
  ({ functions }: ScriptCoverage): Uint8Array => {
    const ran = new Uint8Array(length);
    for (const { ranges } of functions)
      for (const { startOffset, endOffset, count } of ranges)
        ran.fill(count > 0 ? 1 : 0, startOffset, endOffset);
    return ran;
  };
