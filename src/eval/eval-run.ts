import { DuolaneError } from '../errors.ts';
import type { Entry, Usage } from '../event/types.ts';
import { omitUndefined } from '../json.ts';
import type { EvalCall, EvalCase, EvalRun } from './types.ts';

/** Summarizes the log of one run for its evaluation. Times are those of the log. */
export function runOf(each: EvalCase, round: number, entries: readonly Entry[]): EvalRun {
  const started = entries[0]?.at ?? 0;
  const last = entries.findLast((entry) => entry.type === 'run.finished');
  if (!last) throw new DuolaneError('internal', `the run of case "${each.name}" has no end`);
  const texts = entries.filter((entry) => entry.type === 'text.delta' && !entry.path?.length);
  const [first] = texts;
  return omitUndefined<EvalRun>({
    case: each,
    round,
    entries,
    outcome: last.outcome,
    text: last.text,
    calls: callsOf(entries),
    usage: last.usage ?? ({} satisfies Usage),
    totalMs: last.at - started,
    output: last.output,
    error: last.error,
    firstTextMs: first && first.at - started,
    pauseMs: first && longestGap(texts),
  });
}

function callsOf(entries: readonly Entry[]): readonly EvalCall[] {
  const calls = new Map<string, EvalCall>();
  for (const entry of entries) {
    if (entry.type === 'tool.called') {
      calls.set(entry.callId, { name: entry.name, args: entry.args });
    } else if (entry.type === 'tool.completed' || entry.type === 'tool.failed') {
      const call = calls.get(entry.callId);
      if (!call) continue;
      const end = entry.type === 'tool.failed' ? { error: entry.error } : { output: entry.output };
      calls.set(entry.callId, { ...call, ...end });
    }
  }
  return [...calls.values()];
}

function longestGap(entries: readonly Entry[]): number {
  let longest = 0;
  entries.forEach(({ at }, index) => {
    longest = Math.max(longest, at - (entries[index - 1]?.at ?? at));
  });
  return longest;
}
