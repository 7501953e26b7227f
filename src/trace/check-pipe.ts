import type { Frame } from '../event/types.ts';
import { asObject, isObject, type JsonObject } from '../json.ts';
import { describeRequest } from './describe-frame.ts';
import { finding } from './rules.ts';
import { turnRules } from './turn-rules.ts';
import type { Checker, Finding } from './types.ts';

/** A request that has no response yet. */
interface Open {
  readonly line: number;
  readonly request: JsonObject;
}

/** Checks the frames of one session against the rules of the control protocol. */
export function checkPipe(): Checker<Frame> {
  const requests = new Requests();
  const turns = turnRules();
  return {
    see(frame, line) {
      const found = [...turns.see(frame, line), ...requests.see(frame, line)];
      if (frame.data['host'] === true && frame.data['subtype'] === 'input_ended')
        found.push(...closedEarly(line, requests.waiting, turns.needsInput));
      return found;
    },
    end: () => [...requests.end(turns.isOver), ...turns.end()].toSorted((a, b) => a.line - b.line),
  };
}

function closedEarly(line: number, waiting: readonly string[], needsInput: boolean): Finding[] {
  if (waiting.length > 0) {
    return [
      finding(
        'input-closed-early',
        line,
        `stdin was closed while the CLI waited for ${waiting.join(', ')}`,
      ),
    ];
  }
  if (!needsInput) return [];
  const what =
    'stdin was closed before the result, although tools, hooks or permissions were registered';
  return [finding('input-closed-early', line, what)];
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

  /** What the CLI waits for. */
  get waiting(): readonly string[] {
    return [...this.#open.in.values()].map(({ request }) => describeRequest(request));
  }

  see({ lane, direction, data, lost }: Frame, line: number): Finding[] {
    if (lane !== 'control') return stallRules(data, line);
    const id = data['request_id'];
    switch (data['type']) {
      case 'control_request':
        return this.#onRequest(direction, String(id), asObject(data['request']), line);
      case 'control_response':
        return this.#onResponse(direction === 'in' ? 'out' : 'in', data, line, lost === true);
      case 'control_cancel_request':
        if (this.#open[direction].delete(String(id)))
          this.#withdrawn.add(`${direction} ${String(id)}`);
        return [];
      default:
        return [];
    }
  }

  /** `over` says whether no response can come any more, because the CLI or the turn has ended. */
  end(over: (line: number) => boolean): Finding[] {
    const open = [...this.#open.in.values(), ...this.#open.out.values()];
    return open.filter(isAwaited).map(({ line, request }) => {
      const what = describeRequest(request);
      if (!over(line))
        return finding(
          unansweredRule(request),
          line,
          `${what} was still pending at the end`,
          'warning',
        );
      return finding(unansweredRule(request), line, `${what} never got a response`);
    });
  }

  #onRequest(
    direction: Frame['direction'],
    id: string,
    request: JsonObject,
    line: number,
  ): Finding[] {
    const open = this.#open[direction];
    const earlier = open.get(id);
    if (earlier) {
      const what = `${describeRequest(request)} has the request_id of line ${earlier.line}, which is still pending`;
      return [finding('request-id-reused', line, what)];
    }
    open.set(id, { line, request });
    this.#cancelInside(direction, request);
    return [];
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

  #onResponse(asker: Frame['direction'], data: JsonObject, line: number, lost: boolean): Finding[] {
    const response = asObject(data['response']);
    const flat =
      typeof response['request_id'] !== 'string' && typeof data['request_id'] === 'string';
    const id = String(flat ? data['request_id'] : response['request_id']);
    const open = this.#open[asker].get(id);
    this.#open[asker].delete(id);
    if (!open) {
      if (this.#withdrawn.delete(`${asker} ${id}`)) return [];
      return [finding('answer-to-nothing', line, `no pending request has the id ${id}`)];
    }
    const what = describeRequest(open.request);
    if (lost)
      return [
        finding(
          unansweredRule(open.request),
          line,
          `the response to ${what} (line ${open.line}) could not be written`,
        ),
      ];
    if (flat)
      return [
        finding(
          'flat-answer',
          line,
          `the response to ${what} has its request_id outside of response`,
        ),
      ];
    if (response['subtype'] === 'error') return [];
    return answerRules(open.request, response['response'], line);
  }
}

function answerRules(request: JsonObject, answer: unknown, line: number): Finding[] {
  if (request['subtype'] === 'can_use_tool')
    return permissionRules(request, asObject(answer), line);
  const message = asObject(request['message']);
  const isCall = typeof message['method'] === 'string' && message['id'] !== undefined;
  if (request['subtype'] !== 'mcp_message' || !isCall) return [];
  const inner = asObject(answer)['mcp_response'];
  if (isObject(inner) && inner['id'] === message['id']) return [];
  const what = describeRequest(request);
  if (isObject(inner)) {
    const text = `the response to ${what} has the id ${JSON.stringify(inner['id'])} instead of ${JSON.stringify(message['id'])}`;
    return [finding('rpc-id-mismatch', line, text)];
  }
  // The CLI may acknowledge a request of a server first and send the response in another message.
  if (!isObject(answer) || Object.keys(answer).length === 0) return [];
  return [finding('answer-not-wrapped', line, `the response to ${what} has no mcp_response`)];
}

function permissionRules(request: JsonObject, answer: JsonObject, line: number): Finding[] {
  const { behavior, message, updatedInput } = answer;
  const good =
    (behavior === 'allow' && (updatedInput === undefined || isObject(updatedInput))) ||
    (behavior === 'deny' && typeof message === 'string');
  if (good) return [];
  return [
    finding(
      'permission-shape',
      line,
      `${describeRequest(request)} got the response ${JSON.stringify(answer)}`,
    ),
  ];
}

function unansweredRule(
  request: JsonObject,
): 'tool-answer-lost' | 'notification-unacknowledged' | 'request-unanswered' {
  const { method, id } = asObject(request['message']);
  if (request['subtype'] !== 'mcp_message' || typeof method !== 'string')
    return 'request-unanswered';
  if (method === 'tools/call') return 'tool-answer-lost';
  return id === undefined ? 'notification-unacknowledged' : 'request-unanswered';
}

/** Our own host reports itself when no frame was sent for long. */
function stallRules(data: JsonObject, line: number): Finding[] {
  if (data['host'] !== true || data['subtype'] !== 'stalled') return [];
  return [
    finding(
      'stalled',
      line,
      `no frame for ${JSON.stringify(data['silent_ms'])} ms; awaited: ${JSON.stringify(data['holding'])}`,
    ),
  ];
}
