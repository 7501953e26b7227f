import type { Frame } from '../event/types.ts';
import { asObject, isObject, type JsonObject } from '../json.ts';
import { describeRequest } from './describe-frame.ts';
import { Findings, type RuleId } from './rules.ts';
import { turnRules } from './turn-rules.ts';
import type { Checker } from './types.ts';

/** A request that has no response yet. */
interface Open {
  readonly line: number;
  readonly request: JsonObject;
}

/** Checks the frames of one session against the rules of the control protocol. */
export function checkPipe(): Checker<Frame> {
  const found = new Findings();
  const requests = new Requests(found);
  const turns = turnRules(found);
  return {
    see(frame, line) {
      turns.see(frame, line);
      requests.see(frame, line);
      if (frame.data['host'] === true && frame.data['subtype'] === 'input_ended') {
        const what = closedEarly(requests.waiting, turns.needsInput);
        if (what !== undefined) found.add('input-closed-early', line, what);
      }
      return found.take();
    },
    end() {
      requests.end(turns.isOver);
      turns.end();
      return found.take().toSorted((a, b) => a.line - b.line);
    },
  };
}

function closedEarly(waiting: readonly string[], needsInput: boolean): string | undefined {
  if (waiting.length > 0) return `stdin was closed while the CLI waited for ${waiting.join(', ')}`;
  return needsInput
    ? 'stdin was closed before the result, although tools, hooks or permissions were registered'
    : undefined;
}

/**
 * Whether a response is required. A CLI that exits calls SessionEnd hooks and may not wait for
 * them.
 */
function isAwaited({ request: { subtype, input } }: Open): boolean {
  const event = asObject(input)['hook_event_name'];
  return subtype !== 'hook_callback' || event !== 'SessionEnd';
}

/**
 * The pending requests of both directions. A request of the CLI has direction `in`, its response
 * `out`.
 */
class Requests {
  readonly #open = { in: new Map<string, Open>(), out: new Map<string, Open>() };
  /**
   * Requests that were cancelled by their sender: a response may still come, and none is required.
   */
  readonly #withdrawn = new Set<string>();
  readonly #found: Findings;

  constructor(found: Findings) {
    this.#found = found;
  }

  /** What the CLI waits for. */
  get waiting(): readonly string[] {
    return [...this.#open.in.values()].map(({ request }) => describeRequest(request));
  }

  see({ lane, direction, data, lost }: Frame, line: number): void {
    if (lane !== 'control') return this.#stallRules(data, line);
    const id = data['request_id'];
    switch (data['type']) {
      case 'control_request':
        return this.#onRequest(direction, String(id), asObject(data['request']), line);
      case 'control_response':
        return this.#onResponse(direction === 'in' ? 'out' : 'in', data, line, lost === true);
      case 'control_cancel_request':
        if (this.#open[direction].delete(String(id)))
          this.#withdrawn.add(`${direction} ${String(id)}`);
    }
  }

  /** `over` says whether no response can come any more, because the CLI or the turn has ended. */
  end(over: (line: number) => boolean): void {
    const open = [...this.#open.in.values(), ...this.#open.out.values()];
    for (const { line, request } of open.filter(isAwaited)) {
      const [rule, what] = [unansweredRule(request), describeRequest(request)];
      if (over(line)) this.#found.add(rule, line, `${what} never got a response`);
      else this.#found.add(rule, line, `${what} was still pending at the end`, 'warning');
    }
  }

  #onRequest(direction: Frame['direction'], id: string, request: JsonObject, line: number): void {
    const open = this.#open[direction];
    const earlier = open.get(id);
    if (earlier) {
      const what = `${describeRequest(request)} has the request_id of line ${earlier.line}, which is still pending`;
      return this.#found.add('request-id-reused', line, what);
    }
    open.set(id, { line, request });
    this.#cancelInside(direction, request);
  }

  /** `notifications/cancelled` cancels a call on the same server, which then needs no response. */
  #cancelInside(direction: Frame['direction'], request: JsonObject): void {
    const message = asObject(request['message']);
    if (message['method'] !== 'notifications/cancelled') return;
    const target = asObject(message['params'])['requestId'];
    for (const [id, { request: other }] of this.#open[direction]) {
      const same = other['server_name'] === request['server_name'];
      if (!same || asObject(other['message'])['id'] !== target || target === undefined) continue;
      this.#open[direction].delete(id);
      this.#withdrawn.add(`${direction} ${id}`);
    }
  }

  #onResponse(asker: Frame['direction'], data: JsonObject, line: number, lost: boolean): void {
    const response = asObject(data['response']);
    const flat =
      typeof response['request_id'] !== 'string' && typeof data['request_id'] === 'string';
    const id = String(flat ? data['request_id'] : response['request_id']);
    const open = this.#open[asker].get(id);
    this.#open[asker].delete(id);
    if (!open) {
      if (!this.#withdrawn.delete(`${asker} ${id}`))
        this.#found.add('answer-to-nothing', line, `no pending request has the id ${id}`);
      return;
    }
    const what = `the response to ${describeRequest(open.request)}`;
    if (lost) {
      const text = `${what} (line ${open.line}) could not be written`;
      this.#found.add(unansweredRule(open.request), line, text);
    } else if (flat)
      this.#found.add('flat-answer', line, `${what} has its request_id outside of response`);
    else if (response['subtype'] !== 'error')
      this.#answerRules(open.request, response['response'], line);
  }

  #answerRules(request: JsonObject, answer: unknown, line: number): void {
    if (request['subtype'] === 'can_use_tool')
      return this.#permissionRules(request, asObject(answer), line);
    const message = asObject(request['message']);
    const isCall = typeof message['method'] === 'string' && message['id'] !== undefined;
    if (request['subtype'] !== 'mcp_message' || !isCall) return;
    const inner = asObject(answer)['mcp_response'];
    if (isObject(inner) && inner['id'] === message['id']) return;
    const what = describeRequest(request);
    if (isObject(inner)) {
      const text = `the response to ${what} has the id ${JSON.stringify(inner['id'])} instead of ${JSON.stringify(message['id'])}`;
      this.#found.add('rpc-id-mismatch', line, text);
    }
    // The CLI may acknowledge a request of a server first and send the response in another message.
    else if (isObject(answer) && Object.keys(answer).length > 0)
      this.#found.add('answer-not-wrapped', line, `the response to ${what} has no mcp_response`);
  }

  #permissionRules(request: JsonObject, answer: JsonObject, line: number): void {
    const { behavior, message, updatedInput } = answer;
    const good =
      (behavior === 'allow' && (updatedInput === undefined || isObject(updatedInput))) ||
      (behavior === 'deny' && typeof message === 'string');
    const what = `${describeRequest(request)} got the response ${JSON.stringify(answer)}`;
    if (!good) this.#found.add('permission-shape', line, what);
  }

  /** Our own host reports itself when no frame was sent for long. */
  #stallRules({ host, subtype, silent_ms, holding }: JsonObject, line: number): void {
    const what = `no frame for ${JSON.stringify(silent_ms)} ms; awaited: ${JSON.stringify(holding)}`;
    if (host === true && subtype === 'stalled') this.#found.add('stalled', line, what);
  }
}

function unansweredRule(request: JsonObject): RuleId {
  const { method, id } = asObject(request['message']);
  if (request['subtype'] !== 'mcp_message' || typeof method !== 'string')
    return 'request-unanswered';
  if (method === 'tools/call') return 'tool-answer-lost';
  return id === undefined ? 'notification-unacknowledged' : 'request-unanswered';
}
