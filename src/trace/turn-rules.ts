import type { Frame } from '../event/types.ts';
import { asObject, asObjects, isObject, type JsonObject } from '../json.ts';
import type { Findings } from './rules.ts';

/** The rules of the message lane, and what they know about the current turn. */
interface TurnRules {
  see(frame: Frame, line: number): void;
  end(): void;
  /** Whether a turn runs and the CLI may still send requests for what was registered. */
  readonly needsInput: boolean;
  /** Whether no response to a request of this line can come any more. */
  readonly isOver: (line: number) => boolean;
}

/** Checks the rules of the message lane: turns, results, exit, invalid lines. */
export function turnRules(found: Findings): TurnRules {
  let openTurn: number | undefined; // the line of the message that has no result yet
  let bidirectional = false;
  let lastResult: { readonly line: number; readonly failed: boolean } | undefined;
  let ended = false;

  const user = ({ direction, data }: Frame, line: number): void => {
    if (direction === 'in') return;
    openTurn ??= line;
    const role = asObject(data['message'])['role'];
    const what = `a user message has the role ${JSON.stringify(role)}: expected "user"`;
    if (role !== 'user') found.add('message-shape', line, what);
  };

  const result = (data: JsonObject, line: number): void => {
    const queued = data['queued_turn_count'];
    openTurn = typeof queued === 'number' && queued > 0 ? line : undefined;
    const failed = data['is_error'] === true;
    lastResult = { line, failed };
    const why = truncateText(data['errors'] ?? data['result']);
    const what = `the turn failed (${String(data['subtype'])}): ${why}`;
    if (failed) found.add('result-is-error', line, what);
  };

  const system = ({ direction, data }: Frame, line: number): void => {
    if (data['host'] !== true) {
      if (data['subtype'] === 'init') serverRules(data, line);
      return;
    }
    switch (data['subtype']) {
      case 'noise':
        return invalidLine(direction, data, line);
      case 'mcp_server_not_listed':
        return found.add(
          'server-not-listed',
          line,
          `the server ${String(data['server'])} is not connected`,
        );
      case 'output_ended':
        ended = true;
        return;
      case 'exited':
        ended = true;
        exitRules(data, line);
    }
  };

  const exitRules = ({ code, signal }: JsonObject, line: number): void => {
    if (!lastResult) return;
    const { failed } = lastResult;
    if (typeof signal === 'string')
      return found.add('exit-code', line, `the CLI ended by ${signal} after its last result`);
    if (failed === (code !== 0)) return;
    const what = `the CLI exited with code ${String(code)} after ${failed ? 'a failed' : 'a successful'} result`;
    found.add('exit-code', line, what, failed ? 'warning' : 'error');
  };

  const serverRules = (data: JsonObject, line: number): void => {
    for (const { name, status } of asObjects(data['mcp_servers']))
      if (status === 'failed')
        found.add(
          'server-not-listed',
          line,
          `the CLI reports the server ${String(name)} as failed`,
        );
  };

  const invalidLine = (direction: Frame['direction'], data: JsonObject, line: number): void => {
    const text = String(data['text']).trim();
    const from = direction === 'in' ? 'stdout of the CLI' : 'its stdin';
    const what = `${from} has a line that is not a JSON object: ${truncateText(text)}`;
    const fatal = direction === 'out' || text === 'null';
    found.add('line-not-protocol', line, what, fatal ? 'error' : 'warning');
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
      } else if (data['type'] === 'user') user(frame, line);
      else if (data['type'] === 'result') result(data, line);
      else if (data['type'] === 'system') system(frame, line);
    },
    end() {
      if (openTurn === undefined) return;
      const severity = ended ? 'error' : 'warning';
      const what = ended ? 'the CLI ended before' : 'the trace ends before';
      found.add('turn-without-result', openTurn, `${what} this turn had its result`, severity);
    },
  };
}

/** Whether `initialize` declares something that the CLI will send requests for. */
function registers({ type, request }: JsonObject): boolean {
  const { subtype, sdkMcpServers, hooks } = asObject(request);
  if (type !== 'control_request' || subtype !== 'initialize') return false;
  return (Array.isArray(sdkMcpServers) && sdkMcpServers.length > 0) || isObject(hooks);
}

const truncateText = (value: unknown): string => {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text.length > 160 ? `${text.slice(0, 159)}…` : text;
};
