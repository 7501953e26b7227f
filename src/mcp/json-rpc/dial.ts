import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { DialMessagesOptions, MessageTransport, ToolSource } from '../types.ts';
import { Client } from './client.ts';
import { PROTOCOL_VERSIONS } from './methods.ts';
import { sourceOf } from './source.ts';

/**
 * The server at the other end of a road for messages, as a ToolSource. Raw JSON: what the server
 * sends beyond what we know is kept. When the road ends, every call and list in flight throws
 * `peer_exited` or `network`. Disposing closes the road. `signal` covers the handshake only.
 */
export async function dialMessages(
  transport: MessageTransport,
  options: DialMessagesOptions = {},
): Promise<ToolSource & AsyncDisposable> {
  const client = new Client(transport, options.onRequest);
  try {
    const answer = options.initializeResult ?? (await handshake(client, options));
    return sourceOf(client, answer);
  } catch (error) {
    await client[Symbol.asyncDispose]();
    throw error;
  }
}

async function handshake(client: Client, options: DialMessagesOptions): Promise<JsonObject> {
  const { clientInfo = { name: 'duolane', version: '0' }, capabilities = {}, signal } = options;
  const answer = await client.requests.send(
    'initialize',
    { protocolVersion: PROTOCOL_VERSIONS[0], capabilities, clientInfo },
    signal ? { signal } : {},
  );
  const version = answer['protocolVersion'];
  if (!PROTOCOL_VERSIONS.some((known) => known === version))
    throw new DuolaneError(
      'unsupported',
      `the server speaks protocol ${JSON.stringify(version)}; we speak ${PROTOCOL_VERSIONS.join(', ')}`,
    );
  await client.notify('notifications/initialized');
  return answer;
}
