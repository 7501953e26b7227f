import { belongsTo } from '../../event/fold/entry-rules.ts';
import { parseId, resume, withIds } from '../../event/event-id.ts';
import type { Entry, Snapshot } from '../../event/types.ts';
import type { OutputMessage, OutputEncoder } from '../../outputs/index.ts';
import { followTask, type TaskFollower } from '../../task/log/follow-task.ts';
import type { TaskLog } from '../../task/types.ts';

/**
 * One message of a stream. A message that only ends the stream at a question has no id: no entry is
 * behind it.
 */
export interface FrontEndMessage {
  readonly id?: string;
  readonly message: OutputMessage;
}

/**
 * The messages of a task for a front end, `from` an entry or after an event id that the client has,
 * until the task ends or waits for a person. Closing the stream does not cancel the task. A
 * compacted task has no messages any more, so its stream is empty.
 */
export async function* followFrontEnd(
  log: TaskLog,
  task: string,
  output: OutputEncoder,
  start: { readonly from: number } | { readonly after: string },
  signal: AbortSignal,
): AsyncGenerator<FrontEndMessage, void, undefined> {
  const resumes = 'after' in start;
  const encode = resumes ? resume(output.encode, start.after) : withIds(output.encode);
  const from = resumes ? parseId(start.after).seq + 1 : start.from;
  const depths = new Map<string, number>();
  /** Ends the stream at a question, unless the task has continued since. */
  const pause = async (seq: number, messages: FrontEndMessage[]): Promise<boolean> => {
    if ((await log.get(task))?.seq !== seq) return false;
    for (const message of output.pause()) messages.push({ message });
    return true;
  };
  const follower: TaskFollower<FrontEndMessage> = {
    task,
    get seq() {
      return output.snapshot?.seq ?? 0;
    },
    follow(entry, messages) {
      // The first entry of a stream may first close a message of the previous stream, which sent
      // that end itself.
      const closed = !resumes && entry.seq === from ? output.pause().length : 0;
      const outs = encode(entry).slice(closed);
      noteDepth(depths, entry);
      if (!resumes && entry.seq < from) return false;
      for (const { id, out } of outs) messages.push({ id, message: out });
      const now = output.snapshot as Snapshot;
      if (entry.seq < from || now.pending.length === 0 || !isQuiet(now, depths)) return false;
      return pause(entry.seq, messages);
    },
    compacted: () => {},
  };
  for await (const batch of followTask(log, follower, { signal })) yield* batch;
}

/** The entry at which the agent's current, or else its last, message begins. */
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
 * Whether nothing follows before a person answers. Tool calls run in parallel: one may ask while
 * another still works or is about to ask too, and the front end needs all of it in one stream. A
 * call whose sub-agent asks waits together with it.
 */
function isQuiet(
  { state, running, unserved, pending, calls }: Snapshot,
  depths: ReadonlyMap<string, number>,
): boolean {
  if (state !== 'input-required' && state !== 'auth-required') return false;
  if (unserved.length > 0) return false;
  if (!running) return true;
  const asks = (callId: string): boolean => pending.some((request) => belongsTo(request, callId));
  const depth = (callId: string): number => depths.get(callId) ?? 0;
  const asking = calls.filter(({ callId }) => asks(callId));
  // The agent itself asks, and continues only after the answer.
  if (asking.length === 0) return true;
  const deepest = Math.max(...asking.map(({ callId }) => depth(callId)));
  return calls.every(({ callId }) => asks(callId) || depth(callId) < deepest);
}
