import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { StreamRegistry } from '../http/stream-registry.ts';
import { DuolaneError } from '../errors.ts';
import { safeLogger } from '../event/safe-logger.ts';
import type { Agent, Logger } from '../event/types.ts';
import type { GrpcListening } from '../grpc/index.ts';
import { listen } from '../http/node-server.ts';
import { endStream, urlOf } from '../http/node-request.ts';
import { mcpHandler } from '../mcp/json-rpc/http/server/mcp-handler.ts';
import { Disposer } from '../stream/disposer.ts';
import { createRunner } from '../task/run/runner.ts';
import type { LogOptions, TaskLog } from '../task/types.ts';
import { apiRoutes } from './routes/page-api.ts';
import { auditAnswers, openAudit, type AuditEntry } from './auth/audit-log.ts';
import { isCardPath, mountAgents, type MountedAgents } from './routes/mount-agents.ts';
import { blobRoutes } from './routes/blob-routes.ts';
import { createCors } from './auth/cors.ts';
import { failureResponse } from './failure-response.ts';
import { createGuard, type Passed } from './auth/guard.ts';
import { readLimits, type ServeLimits } from './server-limits.ts';
import { stderrLogger } from './stderr-logger.ts';
import { blobsOf, removerOf, serverOptions } from './server-options.ts';
import { createMetrics } from './routes/metrics-route.ts';
import { createOperators, forOperators } from './auth/operators.ts';
import { outputRoutes } from './routes/front-ends.ts';
import { createReadiness } from './readiness.ts';
import { startRetention } from './retention.ts';
import { isPage, pageRoutes } from './routes/page-files.ts';
import { isLoopback } from './auth/loopback.ts';
import { RESOURCE_PATH, resourceRoute } from './auth/protected-resource.ts';
import { createRouter, statusResponse, type HttpRoute } from './router.ts';
import { createStreamRights } from './auth/stream-rights.ts';
import { createSessions, SESSION_PATH } from './auth/login-session.ts';
import { withSkills } from './routes/tool-skills.ts';
import type { AgentModule, ServeOptions } from './types.ts';

export interface Served extends AsyncDisposable {
  readonly url: string;
  /** `grpc://host:port`, when gRPC is served. */
  readonly grpcUrl?: string;
  readonly log: TaskLog;
  /** Adds a record to the audit log of this server; rejects only if records are `required`. */
  readonly audit: (entry: AuditEntry) => Promise<void>;
}

const HEARTBEAT_MS = 15_000;
/** Why a stream ends whose caller has signed out, or whose token has expired. */
const EXPIRED = new DuolaneError('unauthorized', 'the caller may no longer ask; sign in again');
const DEFAULT_STORE = '.duolane/tasks.sqlite';
const DEFAULT_AUDIT = '.duolane/audit.jsonl';

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
  if (Object.keys(modules).length === 0)
    throw new DuolaneError('invalid', 'serve() needs at least one agent');
  // What is open when a later step fails. `resources` are not among it: they are the caller's until
  // serve() has resolved, and a caller may try again, on another port.
  const opened = new Disposer();
  const logger = safeLogger(options.logger, stderrLogger());
  try {
    return await open(modules, { ...options, logger }, opened);
  } catch (error) {
    await opened[Symbol.asyncDispose]().catch((failure: unknown) =>
      logger.error('cannot close what was opened', { error: String(failure) }),
    );
    throw error;
  }
}

type OpenOptions = ServeOptions & { readonly logger: Logger };

async function open(
  modules: Readonly<Record<string, AgentModule>>,
  options: OpenOptions,
  opened: Disposer,
): Promise<Served> {
  const names = Object.keys(modules);
  const { host = '127.0.0.1', port = 0, logger } = options;
  const publicUrl = readPublicUrl(options.publicUrl);
  const limits = readLimits(options.limits, options.auth !== undefined);
  const cors = createCors(options.origins);
  const guard = createGuard(host, options.auth, {
    isAllowed: cors.isAllowed,
    ...(publicUrl !== undefined && { publicUrl }),
    onError: (error) => logger.error('tokens cannot be checked', { error: String(error) }),
  });
  const isPublic = publicUrl !== undefined && !isLoopback(new URL(publicUrl).hostname);
  if (isPublic && !Object.values(options.auth ?? {}).some(Boolean))
    logger.warn(
      'publicUrl is set and auth is not: everyone that the proxy lets in is the same caller, and an operator; set auth',
    );
  const isOperator = createOperators(options.auth, options.operators);
  const log =
    options.log ??
    opened.use(
      await openTaskLog(DEFAULT_STORE, {
        blobs: removerOf(blobsOf(modules)),
        logger,
        ...queueLimit(limits),
      }),
    );
  const audit = opened.use(
    await openAudit(options.audit, options.log ? undefined : DEFAULT_AUDIT, logger),
  );
  const rights = opened.use(createStreamRights());
  const sessions = createSessions(options.auth, {
    ...options.session,
    https: publicUrl?.startsWith('https:') ?? false,
    shared: log.replicas !== undefined,
    isOperator,
    async onChange(kind, actor, outcome) {
      if (kind === 'sign-out') await rights.look(actor);
      await audit.record({ kind, actor, action: kind, object: {}, outcome });
    },
  });
  /** Whether a caller who was let in for a time still may ask; undefined for one who always may. */
  const mayGoOn = (request: Request, { owner, until, signedIn }: Passed) => {
    if (signedIn) return async () => (await sessions.ownerOf(request)) === owner;
    return until === undefined ? undefined : async () => Date.now() < until;
  };
  const observed = await createMetrics(options);
  const bare = opened.use(
    createRunner({
      log,
      observer: observed.observer,
      ...(options.graceMs !== undefined && { graceMs: options.graceMs }),
      ...(options.timeoutMs !== undefined && { timeoutMs: options.timeoutMs }),
      ...(options.maxRuns !== undefined && { maxRuns: options.maxRuns }),
      ...(options.queue !== undefined && { queue: options.queue }),
      ...(limits.maxRunsPerOwner !== undefined && { maxRunsPerOwner: limits.maxRunsPerOwner }),
      logger,
      agents: Object.fromEntries(
        names.map((name) => [name, (modules[name] as AgentModule).default]),
      ),
    }),
  );

  const { runner, onRefusedAnswers } = auditAnswers(bare, audit);

  let state: 'starting' | 'ready' | 'draining' = 'starting';
  let route = async (_request: Request, _owner?: string): Promise<Response> =>
    statusResponse(503, 'starting');
  const listening = opened.use(
    await listen(
      async (request) => {
        const preflight = cors.preflight(request);
        if (preflight) return preflight;
        const answer = async (): Promise<Response> => {
          const passed = await guard(request, {
            open: isOpen(request),
            owner: isSignIn(request) ? undefined : await sessions.ownerOf(request),
          });
          const { response } = passed;
          if (!response) {
            const { owner } = passed;
            const may = mayGoOn(request, passed);
            const answered = await route(request, owner);
            const end = (): void => endStream(request, EXPIRED);
            const release = may && rights.hold({ owner, mayGoOn: may, end });
            return observed.watch(request, answered, release);
          }
          if (isSignIn(request))
            await audit.record({
              kind: 'sign-in',
              actor: '',
              action: 'sign-in',
              object: {},
              outcome: 'refused',
              details: { status: response.status },
            });
          return response;
        };
        const response = await answer().catch((error: unknown) => failureResponse(error, logger));
        return cors.readable(request, response);
      },
      {
        host,
        port,
        maxConnections: limits.maxConnections,
        headersMs: limits.headersMs,
        requestMs: limits.requestMs,
        stallMs: limits.stallMs,
        onError: (error) => logger.warn('a response ended early', { error: String(error) }),
      },
    ),
  );
  let ready: MountedAgents | undefined;
  const openGrpc = async (): Promise<GrpcListening> => {
    const { listenAgents } = await import('./routes/grpc-listener.ts');
    return opened.use(await listenAgents(host, options, limits, guard, () => ready));
  };
  const grpc = options.grpc && (await openGrpc());
  // Host and Origin are the guard's business, for all routes alike.
  const tools = [options, ...Object.values(modules).map((module) => module.options)].find(
    (each) => each?.tools,
  )?.tools;
  const mcp =
    tools &&
    opened.use(
      mcpHandler(tools, {
        hosts: ['*'],
        maxBodyBytes: limits.maxBodyBytes,
        onError: (error) => logger.error('an MCP request failed', { error: String(error) }),
      }),
    );
  const described = await withSkills(modules);
  const url = publicUrl ?? listening.url;
  const grpcUrl = grpc && (options.grpc?.publicUrl ?? new URL(grpc.url).host);
  const mounted = opened.use(
    await mountAgents(
      described,
      { url, grpcUrl },
      { log, runner, onRefusedAnswers },
      options,
      limits,
    ),
  );
  ready = mounted;
  const streams = new StreamRegistry(limits.maxStreamsPerOwner);
  const { maxBodyBytes } = limits;
  const common = {
    isOperator,
    log,
    runner,
    onRefusedAnswers,
    heartbeatMs: HEARTBEAT_MS,
    logger,
    streams,
    maxBodyBytes,
  };
  const readiness = createReadiness(log, logger);
  const routes: readonly HttpRoute[] = [
    { method: 'GET', path: '/healthz', handle: () => statusResponse(200, 'ok') },
    {
      method: 'GET',
      path: '/readyz',
      async handle() {
        if (state !== 'ready') return statusResponse(503, state);
        const { ok } = await readiness();
        return ok
          ? statusResponse(200, state)
          : statusResponse(503, 'the task store does not answer');
      },
    },
    forOperators(observed.route, isOperator),
    ...(['POST', 'GET', 'DELETE'] as const).flatMap((method): HttpRoute[] =>
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
      ...common,
    }),
    ...outputRoutes({ ...common, agents: names }),
    ...audit.routes.map((each) => forOperators(each, isOperator)),
    ...blobRoutes(blobsOf(modules)),
    ...(options.page === false ? [] : [...pageRoutes(), ...sessions.routes]),
  ];
  const router = createRouter(routes);
  route = async (request, owner) =>
    (await mounted.handle(request, owner)) ?? router(request, owner);
  const retention = opened.use(startRetention(log, options.retention, logger));
  state = 'ready';

  // From here on this closes everything, in the reverse order of these lines: runs end first, so that
  // open streams deliver their last event, then streams, listeners, the log, and the resources.
  const closing = new Disposer();
  const resources = new Set([
    ...(options.resources ?? []),
    ...Object.values(modules).flatMap((module) => module.options?.resources ?? []),
  ]);
  for (const resource of resources) closing.use(resource);
  if (!options.log) closing.use(log);
  closing.use(audit);
  closing.use(rights);
  closing.use(listening);
  if (grpc) closing.use(grpc);
  if (mcp) closing.use(mcp);
  closing.defer(() => streams.drain());
  closing.use(mounted);
  closing.use(retention);
  closing.use(runner);
  closing.defer(() => {
    state = 'draining';
  });
  return {
    url: listening.url,
    ...(grpc && { grpcUrl: grpc.url }),
    log,
    audit: (entry) => audit.record(entry),
    [Symbol.asyncDispose]: () => closing[Symbol.asyncDispose](),
  };
}

/** Without the slash at its end, since paths are put behind it. */
function readPublicUrl(given: string | undefined): string | undefined {
  if (given === undefined || /^https?:$/.test(URL.canParse(given) ? new URL(given).protocol : ''))
    return given?.replace(/(?<!\/)\/+$/, '');
  throw new DuolaneError('invalid', `publicUrl must be an http or https address, got ${given}`);
}

/** What a store that serve() opens is told of the limits. */
export const queueLimit = ({
  maxQueuedPerOwner,
}: ServeLimits): Pick<ServeLimits, 'maxQueuedPerOwner'> =>
  maxQueuedPerOwner === undefined ? {} : { maxQueuedPerOwner };

export interface StoreOptions
  extends Pick<LogOptions, 'blobs'>, Pick<ServeLimits, 'maxQueuedPerOwner'> {
  /** Gets failures of the store. */
  readonly logger?: Logger;
}

/** The log in a file, made with its folder; or, with `postgres://…`, the one that replicas share. */
export async function openTaskLog(file: string, options: StoreOptions = {}): Promise<TaskLog> {
  if (/^postgres(ql)?:\/\//.test(file)) {
    const { postgresLog } = await import('../task/postgres/postgres-log.ts');
    return postgresLog({ connectionString: file, ...options });
  }
  const { sqliteLog } = await import('../task/sqlite/sqlite-log.ts');
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  return sqliteLog({ file, ...options });
}

/** A cookie must not renew itself, so a sign-in needs the secret or the token. */
const isSignIn = (request: Request): boolean =>
  request.method === 'POST' && urlOf(request).pathname === SESSION_PATH;

/** What anyone may see: who is here, whether it is well, and the page before anything is on it. */
function isOpen(request: Request): boolean {
  const { pathname } = urlOf(request);
  return (
    pathname === '/healthz' ||
    pathname === '/readyz' ||
    pathname === RESOURCE_PATH ||
    isCardPath(pathname) ||
    (request.method !== 'POST' && (isPage(pathname) || pathname === SESSION_PATH))
  );
}
