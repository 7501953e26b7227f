import type { Logger } from '../../event/types.ts';
import { mcpHandler, type McpHandlerOptions } from '../../mcp/json-rpc/http/server/mcp-handler.ts';
import type { ToolSource } from '../../mcp/types.ts';
import type { Disposer } from '../../stream/disposer.ts';
import { answered } from '../failure-response.ts';
import type { ToolServerLite } from '../page-api-types.ts';
import { httpRoute, type HttpRoute } from '../router.ts';
import type { AgentModule, ServeOptions } from '../types.ts';
import { appFrameRoute } from './app-frame.ts';

/** The MCP endpoints of a server. */
export interface MountedTools {
  readonly routes: readonly HttpRoute[];
  /** The endpoints that the page shows. */
  readonly servers: readonly ToolServerLite[];
}

/**
 * Serves the tools of the options, or of the first module that has some, at `/mcp`, and those of
 * each other module at `/mcp/<name>`. `closing` closes them.
 */
export function mountTools(
  modules: Readonly<Record<string, AgentModule>>,
  { tools, page = true }: Pick<ServeOptions, 'tools' | 'page'>,
  { logger, ...options }: McpHandlerOptions & { readonly logger: Logger },
  closing: Disposer,
): MountedTools {
  const sources = new Map<string, ToolSource>(tools ? [['/mcp', tools]] : []);
  for (const [name, module] of Object.entries(modules)) {
    const source = module.options?.tools;
    if (!source || [...sources.values()].includes(source)) continue;
    sources.set(sources.size === 0 ? '/mcp' : `/mcp/${encodeURIComponent(name)}`, source);
  }
  const routes = [...sources].flatMap(([path, source]) => {
    const handler = closing.use(mcpHandler(source, options));
    return (['POST', 'GET', 'DELETE'] as const).map((method) =>
      httpRoute(method, path, ({ request, owner }) => handler.handle(request, owner)),
    );
  });
  const isShown = page === true || (page !== false && page.tools !== false);
  const servers = isShown
    ? [...sources].map(([path, { info }]) => ({ path, name: info.name }))
    : [];
  return {
    routes: servers.length > 0 ? [...routes, answered(appFrameRoute, logger)] : routes,
    servers,
  };
}
