import { disposeOnce } from '../../../../stream/dispose-once.ts';
import { withUpstream } from '../../../relay/upstream.ts';
import { checkLimits, limitsOf, withinLimits } from '../../../sources/request-timer.ts';
import type { DialMessagesOptions, ToolSource } from '../../../types.ts';
import { dialMessages } from '../../client/dial-messages.ts';
import type { Authorizer, HttpOptions } from './http-exchange.ts';
import { HttpTransport } from './http-transport.ts';
import { HttpUpstream, sseUpstream } from './http-upstream.ts';
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
  const authorizer = await authorizerOf(options);
  const transport = new HttpTransport(options, authorizer);
  const source = await dialMessages(transport, { protocol: 'auto', ...options });
  const protocol = transport.cancelsByClosing ? 'stateless' : 'session';
  const upstream = new HttpUpstream(options, authorizer, protocol);
  const dialled = {
    ...source,
    [Symbol.asyncDispose]: disposeOnce(async () => {
      await upstream[Symbol.asyncDispose]();
      await source[Symbol.asyncDispose]();
    }),
  };
  return withUpstream(dialled, upstream);
}

/**
 * Connects to a server of the HTTP+SSE transport of 2024: `url` is its event stream, which names
 * the address for messages. When the stream ends, everything in flight throws `network`; dial
 * again.
 */
export async function dialSse(options: DialHttpOptions): Promise<ToolSource & AsyncDisposable> {
  const authorizer = await authorizerOf(options);
  const transport = new SseTransport(options, authorizer);
  checkLimits(options);
  await withinLimits(
    { ...limitsOf(options), maxTotalMs: Infinity },
    { what: 'opening the event stream', isOurTurn: () => transport.isLoggingIn },
    options.signal,
    (signal) => transport.open(signal),
  );
  return withUpstream(await dialMessages(transport, options), sseUpstream(options, authorizer));
}

/** Loads the OAuth client on first use: most connections do not need it. */
async function authorizerOf({ url, oauth, fetch }: HttpOptions): Promise<Authorizer | undefined> {
  if (!oauth) return undefined;
  const { OAuth } = await import('./oauth/authorizer.ts');
  return new OAuth(new URL(url), oauth, fetch);
}
