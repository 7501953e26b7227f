import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DuolaneError } from '../errors.ts';
import type { Agent } from '../event/types.ts';
import type { GrpcListening } from '../grpc/index.ts';
import { listen } from '../http/node.ts';
import { urlOf } from '../http/request.ts';
import { mcpHandler } from '../mcp/json-rpc/http/handler.ts';
import { createRunner } from '../task/runner.ts';
import type { LogOptions, TaskLog } from '../task/types.ts';
import { apiRoutes } from './api.ts';
import { isCardPath, mountAgents, type MountedAgents } from './agents.ts';
import { blobRoutes } from './blobs.ts';
import { createCors } from './cors.ts';
import { createGuard } from './guard.ts';
import { blobsOf, removerOf, serverOptions } from './modules.ts';
import { observe } from './observe.ts';
import { mountOutputs } from './outputs.ts';
import { isPage, pageRoutes } from './page.ts';
import { RESOURCE_PATH, resourceRoute } from './resource.ts';
import { createRouter, plain, type Route } from './router.ts';
import { createSessions } from './session.ts';
import { withSkills } from './skills.ts';
import type { AgentModule, ServeOptions } from './types.ts';

export interface Served extends AsyncDisposable {
  readonly url: string;
  /** `grpc://host:port`, when gRPC is served. */
  readonly grpcUrl?: string;
  readonly log: TaskLog;
}

const HEARTBEAT_MS = 15_000;
const DEFAULT_STORE = '.duolane/tasks.sqlite';

/**
 * From an agent to a running server: A2A 0.3 and 1.0, front ends of the AI SDK (`/ui/<name>`), AG-UI
 * (`/ag-ui/<name>`) and stream-json (`/stream-json/<name>`), the page, health, metrics, and with
 * `tools`, its own or those of the first module that has some, an MCP endpoint at `/mcp`. Several
 * agents by name share one log and one page; the first is the one whose card stands at the
 * well-known address. What a server has once, such as `auth`, is told here or by one of them.
 * Disposing drains: runs that can sleep are suspended in the log, others get their final event;
 * then the listener, the log (when it is ours) and `resources` close, in that order.
 */
export async function serve(
  agents: Agent | Readonly<Record<string, AgentModule>>,
  told: ServeOptions = {},
): Promise<Served> {
  const modules =
    typeof agents === 'function' ? { agent: { default: agents, options: told } } : agents;
  const options = serverOptions(modules, told);
  const names = Object.keys(modules);
  if (names.length === 0) throw new DuolaneError('invalid', 'serve() needs at least one agent');
  const { host = '127.0.0.1', port = 0 } = options;
  const publicUrl = readPublicUrl(options.publicUrl);
  const cors = createCors(options.origins);
  const guard = createGuard(host, options.auth, {
    isAllowed: cors.isAllowed,
    ...(publicUrl !== undefined && { publicUrl }),
    onError: (error) => options.logger?.error('tokens cannot be checked', { error: String(error) }),
  });
  const sessions = createSessions(options.auth);
  const log =
    options.log ?? (await openStore(DEFAULT_STORE, { blobs: removerOf(blobsOf(modules)) }));
  const observed = await observe(options);
  const runner = createRunner({
    log,
    observer: observed.observer,
    ...(options.graceMs !== undefined && { graceMs: options.graceMs }),
    ...(options.timeoutMs !== undefined && { timeoutMs: options.timeoutMs }),
    ...(options.maxRuns !== undefined && { maxRuns: options.maxRuns }),
    ...(options.queue !== undefined && { queue: options.queue }),
    ...(options.logger && { logger: options.logger }),
    agents: Object.fromEntries(names.map((name) => [name, (modules[name] as AgentModule).default])),
  });

  let state: 'starting' | 'ready' | 'draining' = 'starting';
  let route = async (_request: Request, _owner?: string): Promise<Response> =>
    plain(503, 'starting');
  const listening = await listen(
    async (request) => {
      const preflight = cors.preflight(request);
      if (preflight) return preflight;
      const { response, owner } = await guard(request, {
        open: isOpen(request),
        owner: sessions.ownerOf(request),
      });
      const told = response ?? observed.watch(request, await route(request, owner));
      return cors.readable(request, told);
    },
    {
      host,
      port,
      onError: (error) => options.logger?.warn('a response ended early', { error: String(error) }),
    },
  ).catch(closing(runner));
  let ready: MountedAgents | undefined;
  const openGrpc = async (): Promise<GrpcListening> => {
    const { listenAgents } = await import('./grpc.ts');
    return listenAgents(host, options, guard, () => ready);
  };
  const grpc = options.grpc && (await openGrpc().catch(closing(listening, runner)));
  // Host and Origin are the guard's business, for all routes alike.
  const tools = [options, ...Object.values(modules).map((module) => module.options)].find(
    (each) => each?.tools,
  )?.tools;
  const mcp = tools && mcpHandler(tools, { hosts: ['*'] });
  const described = await withSkills(modules);
  const url = publicUrl ?? listening.url;
  const grpcUrl = grpc && (options.grpc?.publicUrl ?? new URL(grpc.url).host);
  const mounted = mountAgents(described, { url, grpcUrl }, log, runner, options);
  ready = mounted;
  const outputs = mountOutputs({ agents: names, log, runner, heartbeatMs: HEARTBEAT_MS });
  const routes: readonly Route[] = [
    { method: 'GET', path: '/healthz', handle: () => plain(200, 'ok') },
    {
      method: 'GET',
      path: '/readyz',
      handle: () => plain(state === 'ready' ? 200 : 503, state),
    },
    observed.route,
    ...(['POST', 'GET', 'DELETE'] as const).flatMap((method): Route[] =>
      mcp
        ? [{ method, path: '/mcp', handle: ({ request, owner }) => mcp.handle(request, owner) }]
        : [],
    ),
    ...(mcp && options.auth?.jwt ? [resourceRoute(url, options.auth.jwt)] : []),
    ...apiRoutes({
      agents: mounted.agents.map(({ name, description }) => ({
        name,
        description: description.description,
        ...(modules[name]?.options?.form && { form: modules[name].options.form }),
      })),
      log,
      runner,
      heartbeatMs: HEARTBEAT_MS,
    }),
    ...outputs.routes,
    ...blobRoutes(blobsOf(modules)),
    ...(options.page === false ? [] : [...pageRoutes(), ...sessions.routes]),
  ];
  const router = createRouter(routes);
  route = async (request, owner) =>
    (await mounted.handle(request, owner)) ?? router(request, owner);
  state = 'ready';

  let closed: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    state = 'draining';
    await runner[Symbol.asyncDispose]();
    await mounted[Symbol.asyncDispose]();
    outputs.drain();
    await mcp?.[Symbol.asyncDispose]();
    await grpc?.[Symbol.asyncDispose]();
    await listening[Symbol.asyncDispose]();
    if (!options.log) await log[Symbol.asyncDispose]();
    const resources = new Set([
      ...(options.resources ?? []),
      ...Object.values(modules).flatMap((module) => module.options?.resources ?? []),
    ]);
    for (const resource of [...resources].toReversed()) await resource[Symbol.asyncDispose]();
  };
  return {
    url: listening.url,
    ...(grpc && { grpcUrl: grpc.url }),
    log,
    [Symbol.asyncDispose]: () => (closed ??= close()),
  };
}

/** Without the slash at its end, since paths are put behind it. */
function readPublicUrl(given: string | undefined): string | undefined {
  if (given === undefined || /^https?:$/.test(URL.canParse(given) ? new URL(given).protocol : ''))
    return given?.replace(/\/+$/, '');
  throw new DuolaneError('invalid', `publicUrl must be an http or https address, got ${given}`);
}

/** Rethrows, once what was opened before the failure is closed. */
const closing =
  (...opened: readonly AsyncDisposable[]) =>
  async (error: unknown): Promise<never> => {
    for (const each of opened) await each[Symbol.asyncDispose]();
    throw error;
  };

/** The log in a file, made with its folder; or, with `postgres://…`, the one that replicas share. */
export async function openStore(
  file: string,
  options: Pick<LogOptions, 'blobs'> = {},
): Promise<TaskLog> {
  if (/^postgres(ql)?:\/\//.test(file)) {
    const { postgresLog } = await import('../task/postgres/index.ts');
    return postgresLog({ connectionString: file, ...options });
  }
  const { sqliteLog } = await import('../task/sqlite.ts');
  await mkdir(dirname(file), { recursive: true });
  return sqliteLog({ file, ...options });
}

/** What anyone may see: who is here, whether it is well, and the page before anything is on it. */
function isOpen(request: Request): boolean {
  const { pathname } = urlOf(request);
  return (
    pathname === '/healthz' ||
    pathname === '/readyz' ||
    pathname === RESOURCE_PATH ||
    isCardPath(pathname) ||
    (request.method !== 'POST' && (isPage(pathname) || pathname === '/api/session'))
  );
}
