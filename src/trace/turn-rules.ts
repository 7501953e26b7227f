import type { Frame } from '../event/types.ts';
import { asObject, asObjects, isObject, type JsonObject } from '../json.ts';
import { finding } from './rules.ts';
import type { Checker, Finding } from './types.ts';

/** The rules of the message lane, and what they know about the current turn. */
export interface TurnRules extends Checker<Frame> {
  /** Whether a turn runs and the CLI may still send requests for what was registered. */
  readonly needsInput: boolean;
  /** Whether no response to a request of this line can come any more. */
  readonly isOver: (line: number) => boolean;
}

/** Checks the rules of the message lane: turns, results, exit, invalid lines. */
export function turnRules(): TurnRules {
  let openTurn: number | undefined; // the line of the message that has no result yet
  let bidirectional = false;
  let lastResult: { readonly line: number; readonly failed: boolean } | undefined;
  let ended = false;

  const user = ({ direction, data }: Frame, line: number): Finding[] => {
    if (direction === 'in') return [];
    openTurn ??= line;
    const role = asObject(data['message'])['role'];
    if (role === 'user') return [];
    return [
      finding(
        'message-shape',
        line,
        `a user message has the role ${JSON.stringify(role)}: expected "user"`,
      ),
    ];
  };

  const result = (data: JsonObject, line: number): Finding[] => {
    const queued = data['queued_turn_count'];
    openTurn = typeof queued === 'number' && queued > 0 ? line : undefined;
    const failed = data['is_error'] === true;
    lastResult = { line, failed };
    if (!failed) return [];
    const why = data['errors'] ?? data['result'];
    return [
      finding(
        'result-is-error',
        line,
        `the turn failed (${String(data['subtype'])}): ${truncateText(why)}`,
      ),
    ];
  };

  const system = ({ direction, data }: Frame, line: number): Finding[] => {
    if (data['host'] !== true) return data['subtype'] === 'init' ? serverRules(data, line) : [];
    switch (data['subtype']) {
      case 'noise':
        return [invalidLine(direction, data, line)];
      case 'mcp_server_not_listed':
        return [
          finding(
            'server-not-listed',
            line,
            `the server ${String(data['server'])} is not connected`,
          ),
        ];
      case 'output_ended':
        ended = true;
        return [];
      case 'exited':
        ended = true;
        return exitRules(data, line);
      default:
        return [];
    }
  };

  const exitRules = ({ code, signal }: JsonObject, line: number): Finding[] => {
    if (!lastResult) return [];
    const { failed } = lastResult;
    if (typeof signal === 'string') {
      return [finding('exit-code', line, `the CLI ended by ${signal} after its last result`)];
    }
    if (failed === (code !== 0)) return [];
    const what = `the CLI exited with code ${String(code)} after ${failed ? 'a failed' : 'a successful'} result`;
    return [finding('exit-code', line, what, failed ? 'warning' : 'error')];
  };

  return {
    get needsInput() {
      return bidirectional && openTurn !== undefined;
    },
    isOver: (line) => ended || (lastResult !== undefined && lastResult.line > line),
    see(frame, line) {
      const { data, lane, direction } = frame;
      if (lane === 'control') {
        bidirectional ||=
          registers(data) || (direction === 'in' && data['type'] === 'control_request');
        return [];
      }
      if (data['type'] === 'user') return user(frame, line);
      if (data['type'] === 'result') return result(data, line);
      return data['type'] === 'system' ? system(frame, line) : [];
    },
    end() {
      if (openTurn === undefined) return [];
      const severity = ended ? 'error' : 'warning';
      const what = ended ? 'the CLI ended before' : 'the trace ends before';
      return [
        finding('turn-without-result', openTurn, `${what} this turn had its result`, severity),
      ];
    },
  };
}

/** Whether `initialize` declares something that the CLI will send requests for. */
function registers({ type, request }: JsonObject): boolean {
  const { subtype, sdkMcpServers, hooks } = asObject(request);
  if (type !== 'control_request' || subtype !== 'initialize') return false;
  return (Array.isArray(sdkMcpServers) && sdkMcpServers.length > 0) || isObject(hooks);
}

function serverRules(data: JsonObject, line: number): Finding[] {
  return asObjects(data['mcp_servers'])
    .filter(({ status }) => status === 'failed')
    .map(({ name }) =>
      finding('server-not-listed', line, `the CLI reports the server ${String(name)} as failed`),
    );
}

function invalidLine(direction: Frame['direction'], data: JsonObject, line: number): Finding {
  const text = String(data['text']).trim();
  const from = direction === 'in' ? 'stdout of the CLI' : 'its stdin';
  const fatal = direction === 'out' || text === 'null';
  return finding(
    'line-not-protocol',
    line,
    `${from} has a line that is not a JSON asObject: ${truncateText(text)}`,
    fatal ? 'error' : 'warning',
  );
}

const truncateText = (value: unknown): string => {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text.length > 160 ? `${text.slice(0, 159)}…` : text;
};
