import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { sleep } from '../../stream/abort.ts';
import type { A2ATransport, Received } from './a2a-transport.ts';
import { isSettled } from './task-fold.ts';
import type { A2AMessage, A2AStatus, A2ATask, A2AStreamEvent } from '../protocol/model.ts';

/** Options of `pollTask`. */
export interface PollOptions {
  readonly signal: AbortSignal;
  /** The first pause; doubled while nothing changes, up to ten seconds. */
  readonly pauseMs: number;
  /** The task as an earlier poll read it last, before that poll failed. */
  readonly known: A2ATask | undefined;
}

const MAX_PAUSE_MS = 10_000;

/**
 * Replaces a stream for a server that has none: sends the message with a blocking request, then
 * polls the task until it has settled. Yields the differences between two polls as stream events.
 * Ends when the task has settled; throws if the server is unreachable, and continues from `known`
 * when it is called again.
 */
export async function* pollTask(
  transport: A2ATransport,
  operation: 'stream' | 'subscribe',
  params: JsonObject,
  { signal, pauseMs, known }: PollOptions,
): AsyncGenerator<Received, void, undefined> {
  const response =
    operation === 'stream' ? await sendMessage(transport, params, signal) : undefined;
  if (response && 'message' in response) {
    yield { id: '', event: response };
    return;
  }
  const query = { id: response?.task.id ?? params['id'], ...lengthIn(params['configuration']) };
  let before = known;
  let task = response?.task;
  for (let waitMs = pauseMs; ;) {
    task ??= transport.dialect.decodeTask(await transport.call('get', query, signal));
    const events = changes(before, task);
    for (const event of events) yield { id: '', event, ...(event === events.at(-1) && { task }) };
    if (isSettled(task.status.state)) return;
    [before, task] = [task, undefined];
    await sleep(waitMs * (0.5 + Math.random() / 2), signal);
    waitMs = events.length > 0 ? pauseMs : Math.min(waitMs * 2, MAX_PAUSE_MS);
  }
}

/** Sends a message and returns the task or the reply message of the server. */
export async function sendMessage(
  transport: A2ATransport,
  params: JsonObject,
  signal: AbortSignal | undefined,
): Promise<{ readonly task: A2ATask } | { readonly message: A2AMessage }> {
  const { event } = transport.dialect.decodeEvent(await transport.call('send', params, signal));
  if ('task' in event || 'message' in event) return event;
  throw new DuolaneError(
    'malformed',
    'the server sent a stream event: expected a task or a message',
  );
}

/**
 * The stream events between two polls of a task: for the first poll the task itself, then each new
 * or changed artifact in full, then the status. A task that had settled before the first poll is
 * shown as `submitted` first, so that its end is a separate event.
 */
export function changes(before: A2ATask | undefined, now: A2ATask): readonly A2AStreamEvent[] {
  const { artifacts = [], ...task } = now;
  const { id: taskId, contextId, status } = task;
  const settled = isSettled(status.state);
  const known = new Map(before?.artifacts?.map((each) => [each.artifactId, JSON.stringify(each)]));
  const events: A2AStreamEvent[] = [];
  if (!before) {
    const submitted: A2AStatus = { state: 'TASK_STATE_SUBMITTED', timestamp: status.timestamp };
    events.push({ task: settled ? { ...task, status: submitted } : task });
  }
  for (const artifact of artifacts) {
    if (known.get(artifact.artifactId) === JSON.stringify(artifact)) continue;
    const last = settled && { lastChunk: true as const };
    events.push({ artifactUpdate: { taskId, contextId, artifact, ...last } });
  }
  if (before ? statusContent(before) !== statusContent(now) : settled)
    events.push({ statusUpdate: { taskId, contextId, status } });
  return events;
}

/** A status for comparison. Without its time, which some servers set to the time of the request. */
const statusContent = ({ status: { state, message } }: A2ATask): string =>
  JSON.stringify([state, message]);

const lengthIn = (configuration: unknown): JsonObject =>
  isObject(configuration) && configuration['historyLength'] !== undefined
    ? { historyLength: configuration['historyLength'] }
    : {};
