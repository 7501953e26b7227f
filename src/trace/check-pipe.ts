import type { Frame } from '../event/types.ts';
import { isObject, type JsonObject } from '../json.ts';
import { describeRequest } from './describe-frame.ts';
import { finding } from './rules.ts';
import { turnRules } from './turn-rules.ts';
import type { Checker, Finding } from './types.ts';

interface Open {
  readonly line: number;
  readonly request: JsonObject;
}

/** The rules of the control protocol over the frames of one session. */
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

/** A CLI that leaves calls SessionEnd hooks, and may wait for no answer. */
function isAwaited({ request: { subtype, input } }: Open): boolean {
  const event = isObject(input) ? input['hook_event_name'] : undefined;
  return subtype !== 'hook_callback' || event !== 'SessionEnd';
}

/** Requests and answers of both directions. A request of the CLI has direction `in`, its answer `out`. */
class Requests {
  readonly #open = { in: new Map<string, Open>(), out: new Map<string, Open>() };
  /** Withdrawn by whoever asked: an answer may still come, and none is missed. */
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
        return this.#asked(direction, String(id), object(data['request']), line);
      case 'control_response':
        return this.#answered(direction === 'in' ? 'out' : 'in', data, line, lost === true);
      case 'control_cancel_request':
        if (this.#open[direction].delete(String(id)))
          this.#withdrawn.add(`${direction} ${String(id)}`);
        return [];
      default:
        return [];
    }
  }

  /** `over`: the CLI has ended, or its turn has: nobody will answer any more. */
  end(over: (line: number) => boolean): Finding[] {
    const open = [...this.#open.in.values(), ...this.#open.out.values()];
    return open.filter(isAwaited).map(({ line, request }) => {
      const what = describeRequest(request);
      if (!over(line))
        return finding(
          unansweredRule(request),
          line,
          `${what} was still open at the end`,
          'warning',
        );
      return finding(unansweredRule(request), line, `${what} was never answered`);
    });
  }

  #asked(direction: Frame['direction'], id: string, request: JsonObject, line: number): Finding[] {
    const open = this.#open[direction];
    const earlier = open.get(id);
    if (earlier) {
      const what = `${describeRequest(request)} has the request_id of line ${earlier.line}, which still waits`;
      return [finding('request-id-reused', line, what)];
    }
    open.set(id, { line, request });
    this.#cancelInside(direction, request);
    return [];
  }

  /** `notifications/cancelled` withdraws a call of the same server; no answer to it has to come. */
  #cancelInside(direction: Frame['direction'], request: JsonObject): void {
    const message = object(request['message']);
    if (message['method'] !== 'notifications/cancelled') return;
    const target = object(message['params'])['requestId'];
    for (const [id, { request: other }] of this.#open[direction]) {
      const same = other['server_name'] === request['server_name'];
      if (!same || object(other['message'])['id'] !== target || target === undefined) continue;
      this.#open[direction].delete(id);
      this.#withdrawn.add(`${direction} ${id}`);
    }
  }

  #answered(asker: Frame['direction'], data: JsonObject, line: number, lost: boolean): Finding[] {
    const response = object(data['response']);
    const flat =
      typeof response['request_id'] !== 'string' && typeof data['request_id'] === 'string';
    const id = String(flat ? data['request_id'] : response['request_id']);
    const open = this.#open[asker].get(id);
    this.#open[asker].delete(id);
    if (!open) {
      if (this.#withdrawn.delete(`${asker} ${id}`)) return [];
      return [finding('answer-to-nothing', line, `no request ${id} waits for an answer`)];
    }
    const what = describeRequest(open.request);
    if (lost)
      return [
        finding(
          unansweredRule(open.request),
          line,
          `the answer to ${what} (line ${open.line}) could not be written`,
        ),
      ];
    if (flat)
      return [
        finding(
          'flat-answer',
          line,
          `the answer to ${what} has its request_id outside of response`,
        ),
      ];
    if (response['subtype'] === 'error') return [];
    return answerRules(open.request, response['response'], line);
  }
}

function answerRules(request: JsonObject, answer: unknown, line: number): Finding[] {
  if (request['subtype'] === 'can_use_tool') return permissionRules(request, object(answer), line);
  const message = object(request['message']);
  const isCall = typeof message['method'] === 'string' && message['id'] !== undefined;
  if (request['subtype'] !== 'mcp_message' || !isCall) return [];
  const inner = object(answer)['mcp_response'];
  if (isObject(inner) && inner['id'] === message['id']) return [];
  const what = describeRequest(request);
  if (isObject(inner)) {
    const text = `the answer to ${what} has the id ${JSON.stringify(inner['id'])} instead of ${JSON.stringify(message['id'])}`;
    return [finding('rpc-id-mismatch', line, text)];
  }
  // The CLI may acknowledge a request of a server and answer it in a message of its own.
  if (!isObject(answer) || Object.keys(answer).length === 0) return [];
  return [finding('answer-not-wrapped', line, `the answer to ${what} has no mcp_response`)];
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
      `${describeRequest(request)} was answered with ${JSON.stringify(answer)}`,
    ),
  ];
}

function unansweredRule(
  request: JsonObject,
): 'tool-answer-lost' | 'notification-unacknowledged' | 'request-unanswered' {
  const { method, id } = object(request['message']);
  if (request['subtype'] !== 'mcp_message' || typeof method !== 'string')
    return 'request-unanswered';
  if (method === 'tools/call') return 'tool-answer-lost';
  return id === undefined ? 'notification-unacknowledged' : 'request-unanswered';
}

/** Our own host says itself when nobody speaks. */
function stallRules(data: JsonObject, line: number): Finding[] {
  if (data['host'] !== true || data['subtype'] !== 'stalled') return [];
  return [
    finding(
      'stalled',
      line,
      `nothing was said for ${JSON.stringify(data['silent_ms'])} ms; awaited: ${JSON.stringify(data['holding'])}`,
    ),
  ];
}

const object = (value: unknown): JsonObject => (isObject(value) ? value : {});
