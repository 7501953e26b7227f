import { isObject } from '../../json.ts';
import type { ControlRequest } from '../../wire/control-peer.ts';

/**
 * Whether a request only maintains the connection to an in-process server: handshake, ping, lists.
 */
export function isUpkeep({ subtype, message }: ControlRequest): boolean {
  const method = isObject(message) ? message['method'] : undefined;
  return (
    subtype === 'mcp_message' &&
    typeof method === 'string' &&
    /^(?:initialize|ping|tools\/list|notifications\/.*)$/.test(method)
  );
}
