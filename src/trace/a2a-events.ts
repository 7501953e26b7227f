import { isObject, type JsonObject } from '../json.ts';

/** An event of either protocol version, as far as the rules look at it. */
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
  /** When the server says that it happened, Unix ms. */
  readonly stamp?: number;
}

/** The words of 0.3; those of 1.0 are the same behind `TASK_STATE_`. */
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

export const isTerminal = (state: string | undefined): boolean =>
  state !== undefined && TERMINAL.has(state);

/** The task waits for its user: a stream may end there. */
export const isWaiting = (state: string | undefined): boolean =>
  state === 'input-required' || state === 'auth-required';

/** The `result` of a JSON-RPC response of a stream. */
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
  const { state, timestamp } = isObject(event['status']) ? event['status'] : ({} as JsonObject);
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
  const word =
    version === '1.0'
      ? /^TASK_STATE_(\w+)$/.exec(state)?.[1]?.toLowerCase().replaceAll('_', '-')
      : state;
  return word !== undefined && STATES.has(word) ? word : undefined;
}

function artifact(version: EventLocation['version'], event: JsonObject): RecordedStreamEvent {
  const inner = isObject(event['artifact']) ? event['artifact'] : {};
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
