import { invalid } from '../../../../errors.ts';
import { listen, type ListenOptions } from '../../../../http/node-server.ts';
import { disposeOnce } from '../../../../stream/dispose-once.ts';
import type { ToolSource } from '../../../types.ts';
import { serveMetadata } from './authorization.ts';
import { mcpHandler, type McpHandlerOptions } from './mcp-handler.ts';
import { sseHandler } from './sse-handler.ts';

/** The options of an MCP endpoint and of its HTTP server. */
export interface OfferHttpOptions
  extends McpHandlerOptions, Pick<ListenOptions, 'host' | 'port' | 'stallMs'> {
  /** The path of the endpoint; `/mcp` by default. */
  readonly path?: string;
  /** The path of the HTTP+SSE transport of 2024, such as `/sse`; not served by default. */
  readonly sse?: string;
}

/**
 * Serves one source on its own HTTP server. Disposing ends the sessions and stops listening.
 *
 * @example
 * ```ts
 * await using offered = await offerHttp(createRegistry({ name: 'demo' }));
 * await using source = await dialHttp({ url: offered.url });
 * ```
 */
export async function offerHttp(
  source: ToolSource,
  options: OfferHttpOptions = {},
): Promise<AsyncDisposable & { readonly url: string }> {
  const { path = '/mcp', sse, authorization } = options;
  if (authorization && sse !== undefined)
    throw invalid('cannot offer sse with authorization: the transport of 2024 has none; omit sse');
  const handler = mcpHandler(source, options);
  const old = sse === undefined ? undefined : sseHandler(source, options);
  const listening = await listen(async (request) => {
    const { pathname } = new URL(request.url);
    const metadata = authorization && serveMetadata(request, path, authorization);
    if (metadata) return metadata;
    if (pathname === path) return handler.handle(request);
    if (old && pathname === sse) return old.handle(request);
    return new Response(`not found; the MCP endpoint is ${path}\n`, { status: 404 });
  }, options);
  return {
    url: `${listening.url}${path}`,
    [Symbol.asyncDispose]: disposeOnce(async () => {
      await handler[Symbol.asyncDispose]();
      await old?.[Symbol.asyncDispose]();
      await listening[Symbol.asyncDispose]();
    }),
  };
}
