import type { DialMessagesOptions, ToolSource } from '../../../types.ts';
import { dialMessages } from '../../client/dial-messages.ts';
import type { Authorizer, HttpOptions } from './http-exchange.ts';
import { HttpTransport } from './http-transport.ts';
import { SseTransport } from './sse-transport.ts';

/** The options of `dialHttp` and `dialSse`. */
export type DialHttpOptions = HttpOptions & DialMessagesOptions;

/**
 * Connects to a server at an MCP endpoint over Streamable HTTP. `signal` covers the handshake only.
 * While the server is unreachable, each call fails with `network`; when it is back, calls work
 * again and `listen` reports a change. Error responses are `unauthorized`, `rate_limited` with
 * `retryAfterMs`, and so on, with the HTTP status. Disposing ends the session on the server.
 *
 * @example
 * ```ts
 * await using source = await dialHttp({ url: 'http://localhost:3000/mcp' });
 * for await (const tool of source.listTools()) console.log(tool.name);
 * ```
 */
export async function dialHttp(options: DialHttpOptions): Promise<ToolSource & AsyncDisposable> {
  const transport = new HttpTransport(options, await authorizerOf(options));
  return dialMessages(transport, { protocol: 'auto', ...options });
}

/**
 * Connects to a server of the HTTP+SSE transport of 2024: `url` is its event stream, which names
 * the address for messages. When the stream ends, everything in flight throws `network`; dial
 * again.
 */
export async function dialSse(options: DialHttpOptions): Promise<ToolSource & AsyncDisposable> {
  const transport = new SseTransport(options, await authorizerOf(options));
  await transport.open(options.signal);
  return dialMessages(transport, options);
}

/** Loads the OAuth client on first use: most connections do not need it. */
async function authorizerOf({ url, oauth, fetch }: HttpOptions): Promise<Authorizer | undefined> {
  if (!oauth) return undefined;
  const { OAuth } = await import('./oauth/authorizer.ts');
  return new OAuth(new URL(url), oauth, fetch);
}
