import type { JsonObject } from '../../json.ts';
import { RESUME_EXTENSION } from '../protocol/model.ts';
import type { A2AClient } from './a2a-client.ts';
import type { A2ATransport } from './a2a-transport.ts';
import type { ClientBinding, Interface, Preference } from './choose-interface.ts';
import { connectOver, openHttp, type HttpConnectOptions } from './connect-agent.ts';

/** Options of `connectA2A`. */
export interface ConnectOptions extends Omit<HttpConnectOptions, 'binding'>, Preference {}

/** Every binding: gRPC needs HTTP/2 of Node. */
const ALL_BINDINGS: readonly ClientBinding[] = ['JSONRPC', 'HTTP+JSON', 'GRPC'];

/**
 * Reads the card of an agent and chooses a version and a binding that both sides support, gRPC
 * included. `agent` is the agent's base URL, the URL of its card, or a card that the caller has and
 * trusts. `connectAgent` of `duolane/client` does the same without gRPC, also in browsers.
 *
 * @example
 * await using client = await connectA2A('http://127.0.0.1:3000');
 * for await (const event of client.stream('hello')) console.log(event);
 */
export function connectA2A(
  agent: string | JsonObject,
  options: ConnectOptions = {},
): Promise<A2AClient> {
  return connectOver(agent, options, ALL_BINDINGS, openTransport);
}

async function openTransport(chosen: Interface, options: ConnectOptions): Promise<A2ATransport> {
  if (chosen.binding !== 'GRPC') return openHttp(chosen, options);
  const { url, version, tenant } = chosen;
  const { headers = {}, extensions = [] } = options;
  const { A2AGrpcTransport } = await import('../grpc/grpc-transport.ts');
  const named = [RESUME_EXTENSION, ...extensions];
  return new A2AGrpcTransport({ url, tenant, headers, version, extensions: named });
}
