import { checkEntries } from './check-entries.ts';
import { checkPipe } from './check-pipe.ts';
import { type TraceItem } from './read-trace.ts';
import { finding } from './rules.ts';
import { checkStream } from './check-stream.ts';
import type { Finding } from './types.ts';

/** The kind of a file, the number of its records, and its findings. */
export interface TraceVerdict {
  readonly kind: 'frames' | 'entries' | 'stream';
  readonly records: number;
  readonly findings: readonly Finding[];
}

const KIND = { frame: 'frames', entry: 'entries', event: 'stream' } as const;

/**
 * Checks the records of `readTrace` against all rules. Findings are sorted by line.
 *
 * @example
 * ```ts
 * const { findings } = await checkTrace(readTrace(createReadStream('run.jsonl')));
 * for (const { line, what, fix } of findings) console.log(`${line}: ${what}; ${fix}`);
 * ```
 */
export async function checkTrace(items: AsyncIterable<TraceItem>): Promise<TraceVerdict> {
  const checkers = { frames: checkPipe(), entries: checkEntries(), stream: checkStream() };
  const findings: Finding[] = [];
  let known: TraceVerdict['kind'] | undefined;
  let records = 0;
  for await (const item of items) {
    records += 1;
    if (item.kind !== 'unreadable') known ??= KIND[item.kind];
    switch (item.kind) {
      case 'frame':
        findings.push(...checkers.frames.see(item.frame, item.line));
        break;
      case 'entry':
        findings.push(...checkers.entries.see(item.entry, item.line));
        break;
      case 'event':
        findings.push(...checkers.stream.see(item.event, item.line));
        break;
      case 'unreadable':
        findings.push(finding('file-damaged', item.line, item.why));
        break;
    }
  }
  const kind = known ?? 'frames';
  findings.push(...checkers[kind].end());
  return { kind, records, findings: findings.toSorted((a, b) => a.line - b.line) };
}
