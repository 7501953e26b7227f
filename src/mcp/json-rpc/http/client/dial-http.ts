import type { DialMessagesOptions, ToolSource } from '../../../types.ts';
import { dialMessages } from '../../client/dial-messages.ts';
import type { Authorizer, HttpOptions } from './http-exchange.ts';
import { HttpTransport } from './http-transport.ts';
import { SseTransport } from './sse-transport.ts';

export type DialHttpOptions = HttpOptions & DialMessagesOptions;

/**
 * A server at an MCP endpoint over Streamable HTTP. `signal` covers the handshake only. A server
 * that is away fails each call with `network` and is used again as soon as it is back; `listen`
 * then tells a change. Refusals are `unauthorized`, `rate_limited` with `retryAfterMs`, and so on,
 * with the HTTP status. Disposing ends the session on the server.
 */
export async function dialHttp(options: DialHttpOptions): Promise<ToolSource & AsyncDisposable> {
  const road = new HttpTransport(options, await authorizerOf(options));
  return dialMessages(road, { protocol: 'auto', ...options });
}

/**
 * A server of the transport before Streamable HTTP: `url` is its event stream, which names the
 * address for messages. When the stream ends, everything in flight throws `network`; dial again.
 */
export async function dialSse(options: DialHttpOptions): Promise<ToolSource & AsyncDisposable> {
  const road = new SseTransport(options, await authorizerOf(options));
  await road.open(options.signal);
  return dialMessages(road, options);
}

async function authorizerOf({ url, oauth, fetch }: HttpOptions): Promise<Authorizer | undefined> {
  if (!oauth) return undefined;
  const { OAuth } = await import('./oauth/authorizer.ts');
  return new OAuth(new URL(url), oauth, fetch);
}
