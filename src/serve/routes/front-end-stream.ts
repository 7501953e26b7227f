import { belongsTo } from '../../event/fold/entry-rules.ts';
import { parseId, resume, withIds } from '../../event/event-id.ts';
import type { Entry, Snapshot } from '../../event/types.ts';
import type { OutputMessage, OutputEncoder } from '../../outputs/index.ts';
import type { TaskLog } from '../../task/types.ts';

/** One message of a stream. What only ends the stream at a wait has no id: it is not in the log. */
export interface FrontEndMessage {
  readonly id?: string;
  readonly message: OutputMessage;
}

/**
 * A task in the words of a front end, `from` an entry or behind an id that the client has, up to its
 * end or to a wait for a person. Leaving it leaves the task alone. A task that was compacted has
 * nothing to tell any more, and the stream is empty.
 */
export async function* followFrontEnd(
  log: TaskLog,
  task: string,
  output: OutputEncoder,
  start: { readonly from: number } | { readonly after: string },
  signal: AbortSignal,
): AsyncGenerator<FrontEndMessage, void, undefined> {
  const encode = 'after' in start ? resume(output.encode, start.after) : withIds(output.encode);
  const from = 'from' in start ? start.from : parseId(start.after).seq + 1;
  const depths = new Map<string, number>();
  for await (const entry of log.read(task, 0, { signal })) {
    if (entry.seq !== (output.snapshot?.seq ?? 0) + 1) return;
    // The entry that opens a stream may first end the one before; that one had it already.
    const ended = 'from' in start && entry.seq === from ? output.pause().length : 0;
    const outs = encode(entry).slice(ended);
    noteDepth(depths, entry);
    if ('from' in start && entry.seq < from) continue;
    for (const { id, out } of outs) yield { id, message: out };
    const now = output.snapshot as Snapshot;
    if (entry.seq < from || now.pending.length === 0 || !isQuiet(now, depths)) continue;
    if ((await log.get(task))?.seq !== entry.seq) continue;
    for (const message of output.pause()) yield { message };
    return;
  }
}

/** Where the message of the agent begins that is being said, or was said last. */
export async function messageStart(
  log: TaskLog,
  { task, seq }: Snapshot,
  output: OutputEncoder,
  signal: AbortSignal,
): Promise<number> {
  for await (const entry of log.read(task, 0, { signal })) {
    if (entry.seq !== (output.snapshot?.seq ?? 0) + 1) break;
    output.encode(entry);
    if (entry.seq >= seq) break;
  }
  return output.openedAt;
}

function noteDepth(depths: Map<string, number>, entry: Entry): void {
  if (entry.type === 'tool.started' || entry.type === 'tool.called')
    depths.set(entry.callId, entry.path?.length ?? 0);
  else if (entry.type === 'tool.completed' || entry.type === 'tool.failed')
    depths.delete(entry.callId);
}

/**
 * Whether nothing more comes before somebody answers. Calls run side by side: one may ask while
 * another still works, or is about to ask too, and the front end wants all of it in one stream. A
 * call whose sub-agent asks waits with it.
 */
function isQuiet(
  { state, running, unserved, pending, calls }: Snapshot,
  depths: ReadonlyMap<string, number>,
): boolean {
  if (state !== 'input-required' && state !== 'auth-required') return false;
  if (unserved.length > 0) return false;
  if (!running) return true;
  const asks = (callId: string): boolean =>
    pending.some((request) => request.callId === callId || belongsTo(request.id, callId));
  const depth = (callId: string): number => depths.get(callId) ?? 0;
  const asking = calls.filter(({ callId }) => asks(callId));
  if (asking.length === 0) return true; // the agent itself asks, and says no more before it is told
  const deepest = Math.max(...asking.map(({ callId }) => depth(callId)));
  return calls.every(({ callId }) => asks(callId) || depth(callId) < deepest);
}
