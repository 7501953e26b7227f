import { a2aServer, type A2AServer, type AgentDescription } from '../../a2a/index.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { CARD_PATHS } from '../../a2a/protocol/agent-card.ts';
import { urlOf } from '../../http/node-request.ts';
import type { OnRefusedAnswers, Runner, TaskLog } from '../../task/types.ts';
import { authSchemes, authScopes } from '../auth/guard.ts';
import type { ServerLimits } from '../server-limits.ts';
import type { AgentModule, ServeOptions } from '../types.ts';

/**
 * The agents of a server over A2A: each at `/a2a/<name>`, the first also at `/a2a`, with its card
 * also at the root.
 */
export interface MountedAgents extends AsyncDisposable {
  readonly agents: readonly { readonly name: string; readonly description: AgentDescription }[];
  /**
   * The agent for a gRPC tenant: the one of that name, or the first agent with the tenant passed
   * on.
   */
  byTenant(tenant: string | undefined): { readonly server: A2AServer; readonly tenant?: string };
  /** Undefined if the path belongs to no agent. */
  handle(request: Request, owner: string | undefined): Promise<Response> | undefined;
  /** Closes open streams with a hint to reconnect. */
  drain(): void;
}

interface Mounted {
  readonly name: string;
  readonly description: AgentDescription;
  readonly path: string;
  readonly server: A2AServer;
}

/** Whether the path is that of an agent card, which needs no credentials. */
export const isCardPath = (pathname: string): boolean =>
  CARD_PATHS.some((path) => pathname.endsWith(path));

/**
 * Mounts all agents. If one fails, all are closed: each delivers to push receivers from its start.
 */
export async function mountAgents(
  modules: Readonly<Record<string, AgentModule>>,
  { url, grpcUrl }: { readonly url: string; readonly grpcUrl?: string | undefined },
  tasks: {
    readonly log: TaskLog;
    readonly runner: Runner;
    readonly onRefusedAnswers: OnRefusedAnswers;
  },
  options: ServeOptions,
  limits: ServerLimits,
): Promise<MountedAgents> {
  const mount = ([name, module]: [string, AgentModule], index: number): Mounted => {
    const description = describe(name, module, options);
    const path = `/a2a/${encodeURIComponent(name)}`;
    const server = a2aServer({
      onError: (error) => options.logger?.error('an A2A request failed', { error: String(error) }),
      maxBodyBytes: limits.maxBodyBytes,
      maxStreams: limits.maxStreamsPerOwner,
      ...options.a2a,
      ...module.options?.a2a,
      agent: name,
      description,
      url: `${url}${path}`,
      ...(grpcUrl !== undefined && {
        // gRPC has no path per agent, so the tenant selects the agent.
        grpc: { url: grpcUrl, ...(index > 0 && { tenant: name }) },
      }),
      ...tasks,
    });
    return { name, description, path, server };
  };
  const mounted: Mounted[] = [];
  const close = disposeOnce(async () => {
    await Promise.all(mounted.map(({ server }) => server[Symbol.asyncDispose]()));
  });
  try {
    for (const [index, module] of Object.entries(modules).entries())
      mounted.push(mount(module, index));
  } catch (error) {
    await close();
    throw error;
  }
  const [first] = mounted as [Mounted];
  const find = (
    path: string,
  ): { readonly server: A2AServer; readonly rest: string } | undefined => {
    const own = mounted.find((each) => path === each.path || path.startsWith(`${each.path}/`));
    if (own) return { server: own.server, rest: path.slice(own.path.length) };
    // The card is also below `/a2a`, so that clients find it from the address of the first agent.
    const rest = path.startsWith('/a2a') ? path.slice('/a2a'.length) : path;
    const isFirst = path === '/a2a' || CARD_PATHS.includes(rest);
    return isFirst ? { server: first.server, rest } : undefined;
  };
  return {
    agents: mounted,
    byTenant(tenant) {
      const named = mounted.slice(1).find(({ name }) => name === tenant);
      if (named) return { server: named.server };
      return { server: first.server, ...(tenant !== undefined && { tenant }) };
    },
    handle(request, owner) {
      const found = find(urlOf(request).pathname);
      return found?.server.handle(request, { path: found.rest, owner });
    },
    drain() {
      for (const { server } of mounted) server.drain();
    },
    [Symbol.asyncDispose]: close,
  };
}

function describe(name: string, module: AgentModule, { auth }: ServeOptions): AgentDescription {
  const card = module.options?.card ?? {};
  return {
    ...(auth && { securitySchemes: authSchemes(auth), securityScopes: authScopes(auth) }),
    ...card,
    name: card.name ?? name,
    description: card.description ?? `The agent ${name}.`,
  };
}
