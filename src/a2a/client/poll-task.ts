import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { sleep } from '../../stream/abort.ts';
import type { A2ATransport, Received } from './a2a-transport.ts';
import { isSettled } from './task-fold.ts';
import type { A2AMessage, A2AStatus, A2ATask, A2AStreamEvent } from '../protocol/model.ts';

export interface PollOptions {
  readonly signal: AbortSignal;
  /** The first pause; doubled while nothing changes, up to ten seconds. */
  readonly pauseMs: number;
  /** The task as it was read last, by a poll that broke off. */
  readonly known: A2ATask | undefined;
}

const MAX_PAUSE_MS = 10_000;

/**
 * A stream where the server has none: the message is sent and waited for, and a task that has not
 * settled by then is read again and again until it has, however long that takes. What changed from
 * one look to the next comes as a stream would have said it. Ends when the task has settled; throws
 * when the server cannot be reached, and goes on from `known` when it is called again.
 */
export async function* pollTask(
  wire: A2ATransport,
  operation: 'stream' | 'subscribe',
  params: JsonObject,
  { signal, pauseMs, known }: PollOptions,
): AsyncGenerator<Received, void, undefined> {
  const answer = operation === 'stream' ? await sendMessage(wire, params, signal) : undefined;
  if (answer && 'message' in answer) {
    yield { id: '', event: answer };
    return;
  }
  const query = { id: answer?.task.id ?? params['id'], ...lengthIn(params['configuration']) };
  let before = known;
  let task = answer?.task;
  for (let waitMs = pauseMs; ;) {
    task ??= wire.dialect.decodeTask(await wire.call('get', query, signal));
    const events = changes(before, task);
    for (const event of events)
      yield { id: '', event, ...(event === events.at(-1) && { whole: task }) };
    if (isSettled(task.status.state)) return;
    [before, task] = [task, undefined];
    await sleep(waitMs * (0.5 + Math.random() / 2), signal);
    waitMs = events.length > 0 ? pauseMs : Math.min(waitMs * 2, MAX_PAUSE_MS);
  }
}

/** Sends a message, and gives what the server answers it with. */
export async function sendMessage(
  wire: A2ATransport,
  params: JsonObject,
  signal: AbortSignal | undefined,
): Promise<{ readonly task: A2ATask } | { readonly message: A2AMessage }> {
  const { event } = wire.dialect.decodeEvent(await wire.call('send', params, signal));
  if ('task' in event || 'message' in event) return event;
  throw new DuolaneError('malformed', 'the server answered neither a task nor a message');
}

/**
 * What a stream would have said between two looks at a task: at first the task itself, then each
 * artifact that is new or another, whole, and the status behind them. A task that had settled
 * before anybody looked is said from its beginning, so that its end is an event of its own.
 */
export function changes(before: A2ATask | undefined, now: A2ATask): readonly A2AStreamEvent[] {
  const { artifacts = [], ...task } = now;
  const { id: taskId, contextId, status } = task;
  const settled = isSettled(status.state);
  const known = new Map(before?.artifacts?.map((each) => [each.artifactId, wordsOf(each)]));
  const events: A2AStreamEvent[] = [];
  if (!before) {
    const begun: A2AStatus = { state: 'TASK_STATE_SUBMITTED', timestamp: status.timestamp };
    events.push({ task: settled ? { ...task, status: begun } : task });
  }
  for (const artifact of artifacts) {
    if (known.get(artifact.artifactId) === wordsOf(artifact)) continue;
    const last = settled && { lastChunk: true as const };
    events.push({ artifactUpdate: { taskId, contextId, artifact, ...last } });
  }
  if (before ? wordsOf(said(before)) !== wordsOf(said(now)) : settled)
    events.push({ statusUpdate: { taskId, contextId, status } });
  return events;
}

/** Without the time: a server may put the present one. */
const said = ({ status: { state, message } }: A2ATask): unknown => [state, message];

const wordsOf = (value: unknown): string => JSON.stringify(value);

const lengthIn = (configuration: unknown): JsonObject =>
  isObject(configuration) && configuration['historyLength'] !== undefined
    ? { historyLength: configuration['historyLength'] }
    : {};
