import { listen, type ListenOptions } from '../../../../http/node-server.ts';
import { disposeOnce } from '../../../../stream/dispose-once.ts';
import type { ToolSource } from '../../../types.ts';
import { mcpHandler, type McpHandlerOptions } from './mcp-handler.ts';
import { sseHandler } from './sse-handler.ts';

export interface OfferHttpOptions
  extends McpHandlerOptions, Pick<ListenOptions, 'host' | 'port' | 'stallMs'> {
  /** `/mcp` by default. */
  readonly path?: string;
  /** Where to serve the transport of 2024 too, such as `/sse`; nowhere by default. */
  readonly sse?: string;
}

/** An HTTP server of its own for one source. Disposing ends its sessions and stops listening. */
export async function offerHttp(
  source: ToolSource,
  options: OfferHttpOptions = {},
): Promise<AsyncDisposable & { readonly url: string }> {
  const { path = '/mcp', sse } = options;
  const handler = mcpHandler(source, options);
  const old = sse === undefined ? undefined : sseHandler(source, options);
  const listening = await listen(async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === path) return handler.handle(request);
    if (old && pathname === sse) return old.handle(request);
    return new Response(`nothing here; the MCP endpoint is ${path}\n`, { status: 404 });
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
