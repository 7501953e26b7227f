import { isObject } from '../json.ts';
import { isTerminal, isWaiting, readStreamEvent, type RecordedStreamEvent } from './a2a-events.ts';
import { Findings } from './rules.ts';
import type { Checker, StreamRecord } from './types.ts';

/** What is known about the request of a stream. */
export interface CheckStreamOptions {
  /** The JSON-RPC id of the request, if known; otherwise that of the first event. */
  readonly requestId?: string | number;
  /** The stream of a client that reconnected: it may begin with any state, or in the middle. */
  readonly resumed?: boolean;
}

/** Checks the events of one response against the streaming contract of A2A, 0.3 and 1.0. */
export function checkStream({
  requestId,
  resumed = false,
}: CheckStreamOptions = {}): Checker<StreamRecord> {
  const found = new Findings();
  const sequence = new Sequence(resumed, found);
  const ids = new Set<string>();
  let rpcId: unknown = requestId;
  let first = 0;
  const see = ({ id, data }: StreamRecord, line: number): void => {
    first ||= line;
    if (id !== undefined && ids.has(id))
      found.add('stream-ids', line, `the SSE id ${id} is repeated`);
    if (id !== undefined) ids.add(id);
    const response = readResponse(data);
    if (typeof response === 'string') return found.add('stream-rpc', line, response);
    if (data.includes('\n'))
      found.add('stream-rpc', line, 'the JSON is spread over several data lines', 'warning');
    rpcId ??= response['id'];
    if (response['id'] !== rpcId) {
      const what = `the event has the id ${JSON.stringify(response['id'])}, the request ${JSON.stringify(rpcId)}`;
      found.add('stream-rpc-id', line, what);
    }
    if (isObject(response['error'])) {
      const { code, message } = response['error'];
      sequence.failed = true;
      found.add('stream-rpc-error', line, `error ${String(code)}: ${String(message)}`);
    } else sequence.see(readStreamEvent(response['result']), line);
  };
  return {
    see(record, line) {
      see(record, line);
      return found.take();
    },
    end() {
      sequence.end(first);
      return found.take();
    },
  };
}

function readResponse(data: string): Record<string, unknown> | string {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    // The message of the parser would add nothing.
    return `the data is not JSON: ${data.slice(0, 80)}`;
  }
  if (!isObject(value) || value['jsonrpc'] !== '2.0')
    return 'the data is not a JSON-RPC 2.0 object';
  if ('result' in value === 'error' in value)
    return 'the response must have exactly one of result and error';
  return value;
}

/** Checks the order of events: Task, updates, one end. */
class Sequence {
  /** Set if an error has ended the stream; no event is missing then. */
  failed = false;
  readonly #resumed: boolean;
  readonly #artifacts = new Map<string, boolean>(); // id to whether its last chunk has arrived
  #count = 0;
  #task: { readonly taskId: unknown; readonly contextId: unknown } | undefined;
  #state: string | undefined;
  #ended: string | undefined; // a description of the event that ended the stream
  #last = 0;
  readonly #found: Findings;

  constructor(resumed: boolean, found: Findings) {
    this.#resumed = resumed;
    this.#found = found;
  }

  see(event: RecordedStreamEvent, line: number): void {
    const found = this.#found;
    this.#last = line;
    this.#count += 1;
    const begins = this.#count === 1;
    if (event.kind === 'unknown')
      return found.add('stream-rpc', line, 'the result is not an event of A2A 0.3 or 1.0');
    if (this.#ended !== undefined && event.kind !== 'task')
      found.add('stream-after-final', line, `an event follows ${this.#ended}`);
    if (event.kind === 'message') {
      if (!begins) found.add('stream-order', line, 'the stream of a Task has a Message');
      this.#ended = 'the one Message';
      return;
    }
    if (begins && event.kind !== 'task' && !this.#resumed)
      found.add('stream-first-task', line, `the stream begins with a ${event.kind} update`);
    this.#sameTask(event, line);
    if (event.kind === 'artifact') return this.#artifact(event, line);
    if (event.kind === 'task') this.#snapshot(event.state, begins, line);
    this.#status(event, line);
  }

  end(first: number): void {
    if (this.failed || this.#ended !== undefined) return;
    if (this.#count === 0)
      return this.#found.add('stream-no-final', first, 'the stream closed without any event');
    const what = `the stream closed in the state ${this.#state ?? 'unknown'}, without a final event`;
    this.#found.add('stream-no-final', this.#last, what);
  }

  #sameTask(
    { taskId, contextId }: Exclude<RecordedStreamEvent, { kind: 'message' | 'unknown' }>,
    line: number,
  ): void {
    this.#task ??= { taskId, contextId };
    if (
      typeof taskId === 'string' &&
      taskId === this.#task.taskId &&
      contextId === this.#task.contextId
    )
      return;
    const what = `taskId ${JSON.stringify(taskId)}, contextId ${JSON.stringify(contextId)}: the stream began with ${JSON.stringify(this.#task)}`;
    this.#found.add('stream-ids', line, what);
  }

  #snapshot(state: string | undefined, begins: boolean, line: number): void {
    if (begins) {
      if (!this.#resumed && state !== 'submitted')
        this.#found.add('stream-first-submitted', line, `the first Task is ${String(state)}`);
    }
    // A snapshot of the ended task before the close is allowed.
    else if (this.#ended === undefined && !isTerminal(state))
      this.#found.add('stream-order', line, 'the stream has a second Task');
  }

  #status(event: Extract<RecordedStreamEvent, { kind: 'task' | 'status' }>, line: number): void {
    const { state, kind, version, final } = event;
    if (state === undefined)
      return this.#found.add('stream-state', line, 'the status has no known state');
    this.#state = state;
    if (version === '0.3' && kind === 'status') {
      if (final === true && !isTerminal(state) && !isWaiting(state))
        this.#found.add('stream-final-flag', line, `final is true on a ${state} status`);
      if (final !== true && isTerminal(state))
        this.#found.add('stream-final-flag', line, `final is not true on the ${state} status`);
    }
    if (isTerminal(state) || isWaiting(state) || final === true)
      this.#ended = `the final event (${state})`;
  }

  #artifact(event: Extract<RecordedStreamEvent, { kind: 'artifact' }>, line: number): void {
    const { artifactId, append, last } = event;
    const finished = this.#artifacts.get(artifactId);
    this.#artifacts.set(artifactId, last);
    if (!append || (this.#resumed && finished === undefined) || finished === false) return;
    const what = finished === undefined ? 'was never started' : 'has its last chunk already';
    this.#found.add('stream-artifact', line, `append to the artifact ${artifactId}, which ${what}`);
  }
}
