import { asObject, isObject, type JsonObject } from '../json.ts';

/** An event of either protocol version, with the members that the rules need. */
export type RecordedStreamEvent =
  | ({
      readonly kind: 'task' | 'status';
      readonly state: string | undefined;
      readonly final?: boolean;
    } & EventLocation)
  | ({
      readonly kind: 'artifact';
      readonly artifactId: string;
      readonly append: boolean;
      readonly last: boolean;
    } & EventLocation)
  | { readonly kind: 'message' }
  | { readonly kind: 'unknown' };

interface EventLocation {
  readonly version: '0.3' | '1.0';
  readonly taskId: unknown;
  readonly contextId: unknown;
  /** When it happened, by the clock of the server, in Unix ms. */
  readonly stamp?: number;
}

/** The states of 0.3; those of 1.0 are the same, prefixed by `TASK_STATE_`. */
const STATES: ReadonlySet<string> = new Set([
  'submitted',
  'working',
  'input-required',
  'auth-required',
  'completed',
  'canceled',
  'failed',
  'rejected',
]);
const TERMINAL: ReadonlySet<string> = new Set(['completed', 'canceled', 'failed', 'rejected']);

/** Whether the task has ended. */
export const isTerminal = (state: string | undefined): boolean =>
  state !== undefined && TERMINAL.has(state);

/** Whether the task waits for its user: a stream may end there. */
export const isWaiting = (state: string | undefined): boolean =>
  state === 'input-required' || state === 'auth-required';

/** Reads the `result` of a JSON-RPC response of a stream. */
export function readStreamEvent(result: unknown): RecordedStreamEvent {
  if (!isObject(result)) return { kind: 'unknown' };
  if (isObject(result['task'])) return status('task', '1.0', result['task'], result['task']['id']);
  if (isObject(result['statusUpdate'])) return update('1.0', result['statusUpdate']);
  if (isObject(result['artifactUpdate'])) return artifact('1.0', result['artifactUpdate']);
  if (isObject(result['message'])) return { kind: 'message' };
  switch (result['kind']) {
    case 'task':
      return status('task', '0.3', result, result['id']);
    case 'status-update':
      return update('0.3', result);
    case 'artifact-update':
      return artifact('0.3', result);
    case 'message':
      return { kind: 'message' };
    default:
      return { kind: 'unknown' };
  }
}

const update = (version: EventLocation['version'], event: JsonObject): RecordedStreamEvent => ({
  ...status('status', version, event, event['taskId']),
  ...(typeof event['final'] === 'boolean' && { final: event['final'] }),
});

function status(
  kind: 'task' | 'status',
  version: EventLocation['version'],
  event: JsonObject,
  taskId: unknown,
): Extract<RecordedStreamEvent, { readonly kind: 'task' | 'status' }> {
  const { state, timestamp } = asObject(event['status']);
  const stamp = typeof timestamp === 'string' ? Date.parse(timestamp) : Number.NaN;
  return {
    kind,
    version,
    taskId,
    contextId: event['contextId'],
    state: readState(version, state),
    ...(!Number.isNaN(stamp) && { stamp }),
  };
}

export function readState(version: EventLocation['version'], state: unknown): string | undefined {
  if (typeof state !== 'string') return undefined;
  const name =
    version === '1.0'
      ? /^TASK_STATE_(\w+)$/.exec(state)?.[1]?.toLowerCase().replaceAll('_', '-')
      : state;
  return name !== undefined && STATES.has(name) ? name : undefined;
}

function artifact(version: EventLocation['version'], event: JsonObject): RecordedStreamEvent {
  const inner = asObject(event['artifact']);
  return {
    kind: 'artifact',
    version,
    taskId: event['taskId'],
    contextId: event['contextId'],
    artifactId: String(inner['artifactId']),
    append: event['append'] === true,
    last: event['lastChunk'] === true,
  };
}
