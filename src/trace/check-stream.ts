import { isObject } from '../json.ts';
import { isTerminal, isWaiting, readStreamEvent, type RecordedStreamEvent } from './a2a-events.ts';
import { finding } from './rules.ts';
import type { Checker, Finding, StreamRecord } from './types.ts';

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
  const sequence = new Sequence(resumed);
  const ids = new Set<string>();
  let rpcId: unknown = requestId;
  let first = 0;
  return {
    see(record, line) {
      first ||= line;
      const found: Finding[] = [];
      if (record.id !== undefined && ids.has(record.id))
        found.push(finding('stream-ids', line, `the SSE id ${record.id} is repeated`));
      if (record.id !== undefined) ids.add(record.id);
      const response = readResponse(record.data);
      if (typeof response === 'string') return [...found, finding('stream-rpc', line, response)];
      if (record.data.includes('\n'))
        found.push(
          finding('stream-rpc', line, 'the JSON is spread over several data lines', 'warning'),
        );
      rpcId ??= response['id'];
      if (response['id'] !== rpcId) {
        const what = `the event has the id ${JSON.stringify(response['id'])}, the request ${JSON.stringify(rpcId)}`;
        found.push(finding('stream-rpc-id', line, what));
      }
      if (isObject(response['error'])) {
        const { code, message } = response['error'];
        sequence.failed = true;
        return [
          ...found,
          finding('stream-rpc-error', line, `error ${String(code)}: ${String(message)}`),
        ];
      }
      return [...found, ...sequence.see(readStreamEvent(response['result']), line)];
    },
    end: () => sequence.end(first),
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

  constructor(resumed: boolean) {
    this.#resumed = resumed;
  }

  see(event: RecordedStreamEvent, line: number): Finding[] {
    this.#last = line;
    this.#count += 1;
    const begins = this.#count === 1;
    if (event.kind === 'unknown')
      return [finding('stream-rpc', line, 'the result is not an event of A2A 0.3 or 1.0')];
    const found: Finding[] = [];
    if (this.#ended !== undefined && event.kind !== 'task')
      found.push(finding('stream-after-final', line, `an event follows ${this.#ended}`));
    if (event.kind === 'message') {
      if (!begins) found.push(finding('stream-order', line, 'the stream of a Task has a Message'));
      this.#ended = 'the one Message';
      return found;
    }
    if (begins && event.kind !== 'task' && !this.#resumed)
      found.push(
        finding('stream-first-task', line, `the stream begins with a ${event.kind} update`),
      );
    found.push(...this.#sameTask(event, line));
    if (event.kind === 'artifact') return [...found, ...this.#artifact(event, line)];
    if (event.kind === 'task') found.push(...this.#snapshot(event, begins, line));
    return [...found, ...this.#status(event, line)];
  }

  end(first: number): Finding[] {
    if (this.failed || this.#ended !== undefined) return [];
    if (this.#count === 0)
      return [finding('stream-no-final', first, 'the stream closed without any event')];
    const what = `the stream closed in the state ${this.#state ?? 'unknown'}, without a final event`;
    return [finding('stream-no-final', this.#last, what)];
  }

  #sameTask(
    event: Exclude<RecordedStreamEvent, { kind: 'message' | 'unknown' }>,
    line: number,
  ): Finding[] {
    const { taskId, contextId } = event;
    this.#task ??= { taskId, contextId };
    if (
      typeof taskId === 'string' &&
      taskId === this.#task.taskId &&
      contextId === this.#task.contextId
    )
      return [];
    const what = `taskId ${JSON.stringify(taskId)}, contextId ${JSON.stringify(contextId)}: the stream began with ${JSON.stringify(this.#task)}`;
    return [finding('stream-ids', line, what)];
  }

  #snapshot(
    event: { readonly state: string | undefined },
    begins: boolean,
    line: number,
  ): Finding[] {
    if (begins) {
      if (this.#resumed || event.state === 'submitted') return [];
      return [finding('stream-first-submitted', line, `the first Task is ${String(event.state)}`)];
    }
    // A snapshot of the ended task before the close is allowed.
    if (this.#ended !== undefined || isTerminal(event.state)) return [];
    return [finding('stream-order', line, 'the stream has a second Task')];
  }

  #status(
    event: Extract<RecordedStreamEvent, { kind: 'task' | 'status' }>,
    line: number,
  ): Finding[] {
    const { state, kind, version, final } = event;
    if (state === undefined)
      return [finding('stream-state', line, 'the status has no known state')];
    this.#state = state;
    const found: Finding[] = [];
    if (version === '0.3' && kind === 'status') {
      if (final === true && !isTerminal(state) && !isWaiting(state))
        found.push(finding('stream-final-flag', line, `final is true on a ${state} status`));
      if (final !== true && isTerminal(state))
        found.push(finding('stream-final-flag', line, `final is not true on the ${state} status`));
    }
    if (isTerminal(state) || isWaiting(state) || final === true)
      this.#ended = `the final event (${state})`;
    return found;
  }

  #artifact(event: Extract<RecordedStreamEvent, { kind: 'artifact' }>, line: number): Finding[] {
    const { artifactId, append, last } = event;
    const finished = this.#artifacts.get(artifactId);
    this.#artifacts.set(artifactId, last);
    if (!append || (this.#resumed && finished === undefined) || finished === false) return [];
    const what = finished === undefined ? 'was never started' : 'has its last chunk already';
    return [
      finding('stream-artifact', line, `append to the artifact ${artifactId}, which ${what}`),
    ];
  }
}
