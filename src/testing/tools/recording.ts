import { EPOCH } from '../kernel/world.ts';
import type { Frame } from '../../event/types.ts';
import { isObject, type JsonObject } from '../../json.ts';
import type { SentMessage } from './simulated-link.ts';

/** The name of the server in the frames. */
const SERVER = 'tools';

/**
 * The messages of a run as the lines of a trace file: as an agent CLI and its host would exchange
 * them over the control lane, so that every viewer of traces shows the calls.
 */
export function recordingOf(messages: readonly SentMessage[]): readonly string[] {
  let count = 0;
  const frames = messages.map(({ at, by, message }): Frame => {
    const isClient = by.name === 'client';
    const isResponse = message['method'] === undefined;
    const data = isResponse
      ? responseFrame(message, isClient)
      : requestFrame(message, idOf(message, isClient) ?? `n${++count}`);
    return {
      lane: 'control',
      direction: isClient ? 'in' : 'out',
      at: EPOCH + Math.round(at),
      data,
    };
  });
  const header = { format: 'duolane-trace', version: 1 };
  return [header, ...frames].map((line) => JSON.stringify(line));
}

const idOf = ({ id }: JsonObject, isClient: boolean): string | undefined =>
  id === undefined ? undefined : `${isClient ? 'c' : 's'}${JSON.stringify(id)}`;

const requestFrame = (message: JsonObject, id: string): JsonObject => ({
  type: 'control_request',
  request_id: id,
  request: { subtype: 'mcp_message', server_name: SERVER, message },
});

// A response has the id of the request of the other side.
const responseFrame = (message: JsonObject, isClient: boolean): JsonObject => ({
  type: 'control_response',
  response: {
    subtype: 'success',
    request_id: idOf(isObject(message) ? message : {}, !isClient),
    response: { mcp_response: message },
  },
});
