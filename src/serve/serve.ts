import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { StreamRegistry } from '../http/stream-registry.ts';
import { DuolaneError } from '../errors.ts';
import { safeLogger } from '../event/safe-logger.ts';
import type { Agent, Logger } from '../event/types.ts';
import type { GrpcListening } from '../grpc/index.ts';
import { listen } from '../http/node-server.ts';
import { endStream, isCutOff, setRequestOwner, urlOf } from '../http/node-request.ts';
import { omitUndefined } from '../json.ts';
import { Disposer } from '../stream/disposer.ts';
import { createRunner } from '../task/run/runner.ts';
import type { LogOptions, TaskLog } from '../task/types.ts';
import { apiRoutes } from './routes/page-api.ts';
import { auditAnswers, openAudit, type AuditEntry } from './auth/audit-log.ts';
import { isCardPath, mountAgents, type MountedAgents } from './routes/mount-agents.ts';
import { agentsWithBlobs } from './agent-blobs.ts';
import { blobRoutes } from './routes/blob-routes.ts';
import { createCors } from './auth/cors.ts';
import { failureResponse } from './failure-response.ts';
import { createGuard, type Passed } from './auth/guard.ts';
import { byteLimits, readLimits, type ServeLimits } from './server-limits.ts';
import { stderrLogger } from './stderr-logger.ts';
import { blobsOf, removerOf, serverOptions } from './server-options.ts';
import { createMetrics } from './routes/metrics-route.ts';
import { mountTools } from './routes/mcp-routes.ts';
import { createOperators, forOperators } from './auth/operators.ts';
import { outputRoutes } from './routes/front-ends.ts';
import { createEvents, isEventPath } from './routes/event-routes.ts';
import { readPublicUrl } from './public-url.ts';
import { createReadiness } from './readiness.ts';
import { startRetention } from './retention.ts';
import { isPage, pageRoutes } from './routes/page-files.ts';
import { isLoopback } from './auth/loopback.ts';
import { RESOURCE_PATH, resourceRoute } from './auth/protected-resource.ts';
import { createRouter, httpRoute, statusResponse, type HttpRoute } from './router.ts';
import { createStreamRights } from './auth/stream-rights.ts';
import { createSessions, SESSION_PATH } from './auth/login-session.ts';
import { withSkills } from './routes/tool-skills.ts';
import type { AgentModule, ServeOptions } from './types.ts';

/** A running server. Disposing drains and closes it. */
export interface Served extends AsyncDisposable {
  /** The address on which it listens, such as `http://127.0.0.1:8003`. */
  readonly url: string;
  /** `grpc://host:port`, if gRPC is served. */
  readonly grpcUrl?: string;
  /** The log that holds all tasks: the one of the options, or the one that serve() opened. */
  readonly log: TaskLog;
  /** Adds a record to the audit log of this server; rejects only if records are `required`. */
  readonly audit: (entry: AuditEntry) => Promise<void>;
}

const HEARTBEAT_MS = 15_000;
/**
 * The reason with which a stream ends if its caller has signed out or the caller's token expired.
 */
const EXPIRED = new DuolaneError('unauthorized', 'the sign-in has ended; sign in again');
const DEFAULT_STORE = '.duolane/tasks.sqlite';
const DEFAULT_AUDIT = '.duolane/audit.jsonl';

/**
 * Starts a server for one agent, or for several by name. It serves A2A 0.3 and 1.0, the front ends
 * of the AI SDK (`/ui/<name>`), AG-UI (`/ag-ui/<name>`) and stream-json (`/stream-json/<name>`),
 * the page, health and metrics, and MCP endpoints at `/mcp` and `/mcp/<name>` if the options, or
 * those of a module, have `tools`. Several agents share one log and one page; the card of the first
 * is at the well-known address. An option that a server has once, such as `auth`, is set here or by
 * one of the modules.
 *
 * Disposing drains: runs that can be resumed are suspended in the log, others get their final
 * event. Then the listeners, the log (if serve() opened it) and `resources` close, in that order.
 * If serve() rejects, everything that it had opened is closed; `resources` still belong to the
 * caller.
 *
 * @example
 * ```ts
 * import { serve } from 'duolane/serve';
 *
 * await using served = await serve(
 *   async function* () {
 *     yield { type: 'text.delta', id: 't', delta: 'hello' };
 *   },
 *   { port: 8003 },
 * );
 * console.log(served.url);
 * ```
 */
export async function serve(
  agents: Agent | Readonly<Record<string, AgentModule>>,
  given: ServeOptions = {},
): Promise<Served> {
  const modules =
    typeof agents === 'function' ? { agent: { default: agents, options: given } } : agents;
  const options = serverOptions(modules, given);
  if (Object.keys(modules).length === 0)
    throw new DuolaneError('invalid', 'missing agent: serve() expected at least one');
  const closing = new Disposer();
  const logger = safeLogger(options.logger, stderrLogger());
  try {
    return await open(modules, { ...options, logger }, closing);
  } catch (error) {
    await closing[Symbol.asyncDispose]().catch((failure: unknown) =>
      logger.error('cannot close a server that failed to start', { error: String(failure) }),
    );
    throw error;
  }
}

type OpenOptions = ServeOptions & { readonly logger: Logger };

/**
 * Opens the parts of a server, each in `closing` from the moment it is open. They close in the
 * reverse order of these lines: runs end first, so that open streams deliver their last event, then
 * streams, listeners, the log, and the resources.
 */
async function open(
  modules: Readonly<Record<string, AgentModule>>,
  options: OpenOptions,
  closing: Disposer,
): Promise<Served> {
  const names = Object.keys(modules);
  const { host = '127.0.0.1', port = 0, logger } = options;
  const publicUrl = readPublicUrl(options.publicUrl);
  const limits = readLimits(options.limits, options.auth !== undefined);
  const cors = createCors(options.origins);
  const guard = createGuard(host, options.auth, {
    isAllowed: cors.isAllowed,
    ...(publicUrl !== undefined && { publicUrl }),
    onError: (error) => logger.error('cannot check a token', { error: String(error) }),
  });
  const isPublic = publicUrl !== undefined && !isLoopback(new URL(publicUrl).hostname);
  if (isPublic && !Object.values(options.auth ?? {}).some(Boolean))
    logger.warn(
      'publicUrl is set without auth: all callers that the proxy lets in are one owner and an operator; set auth',
    );
  const isOperator = createOperators(options.auth, options.operators);
  // Empty until everything is open: if serve() rejects, the resources still belong to the caller,
  // who may try again on another port.
  const resources = closing.use(new Disposer());
  const log =
    options.log ??
    closing.use(
      await openTaskLog(DEFAULT_STORE, {
        blobs: removerOf(blobsOf(modules, options.blobs)),
        logger,
        ...queueLimit(limits),
      }),
    );
  const audit = closing.use(
    await openAudit(options.audit, options.log ? undefined : DEFAULT_AUDIT, logger),
  );
  const rights = closing.use(createStreamRights());
  const sessions = createSessions(options.auth, {
    ...options.session,
    https: publicUrl?.startsWith('https:') ?? false,
    shared: log.replicas !== undefined,
    isOperator,
    async onChange(kind, actor, outcome) {
      if (kind === 'sign-out') await rights.check(actor);
      await audit.record({ kind, actor, action: kind, object: {}, outcome });
    },
  });
  /**
   * Checks whether credentials that can end are still valid; undefined for those that cannot end.
   */
  const mayGoOn = (request: Request, { owner, until, signedIn }: Passed) => {
    if (signedIn) return async () => (await sessions.ownerOf(request)) === owner;
    return until === undefined ? undefined : async () => Date.now() < until;
  };
  const metrics = await createMetrics(options);
  closing.defer(() => metrics[Symbol.dispose]());
  const { graceMs, timeoutMs, maxRuns, queue } = options;
  const { maxRunsPerOwner } = limits;
  let state: 'starting' | 'ready' | 'draining' = 'starting';
  const events = createEvents(options.events, () => publicUrl ?? listening.url, logger);
  const unaudited = createRunner({
    log,
    eventUrl: events.eventUrl,
    observer: metrics.observer,
    ...omitUndefined({ graceMs, timeoutMs, maxRuns, queue, maxRunsPerOwner }),
    logger,
    agents: agentsWithBlobs(modules, options.blobs),
  });
  // If serve() rejects. A server that has started closes its runner below, before the streams.
  closing.defer(() => state === 'starting' && unaudited[Symbol.asyncDispose]());
  const { runner, onRefusedAnswers } = auditAnswers(unaudited, audit);

  let route = async (_request: Request, _owner?: string): Promise<Response> =>
    statusResponse(503, 'starting');
  const listening = closing.use(
    await listen(
      async (request) => {
        const preflight = cors.preflight(request);
        if (preflight) return preflight;
        const dispatch = async (): Promise<Response> => {
          const passed = await guard(request, {
            open: isOpen(request),
            owner: isSignIn(request) ? undefined : await sessions.ownerOf(request),
          });
          const { response } = passed;
          if (!response) {
            const { owner } = passed;
            if (options.auth) setRequestOwner(request, owner ?? '');
            const may = mayGoOn(request, passed);
            const routed = await route(request, owner);
            const end = (): void => endStream(request, EXPIRED);
            const release = may && rights.track({ owner, mayGoOn: may, end });
            return metrics.watch(request, routed, release);
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
        const response = await dispatch().catch((error: unknown) => failureResponse(error, logger));
        // Clients do this all the time, so it is not worth a warning, whichever protocol it was.
        if (isCutOff(request))
          logger.debug('the client disconnected before its request was complete', {
            path: urlOf(request).pathname,
          });
        return cors.readable(request, response);
      },
      {
        host,
        port,
        maxConnections: limits.maxConnections,
        headersMs: limits.headersMs,
        requestMs: limits.requestMs,
        stallMs: limits.stallMs,
        ...byteLimits(limits),
        onError: (error) => logger.warn('a response ended early', { error: String(error) }),
      },
    ),
  );
  let ready: MountedAgents | undefined;
  const openGrpc = async (): Promise<GrpcListening> => {
    const { listenAgents } = await import('./routes/grpc-listener.ts');
    return closing.use(await listenAgents(host, options, limits, guard, () => ready));
  };
  const grpc = options.grpc && (await openGrpc());
  const given = [options, ...Object.values(modules).map((module) => module.options)];
  const mcp = mountTools(
    modules,
    options,
    {
      // The guard checks Host and Origin for all routes, with `origins` and `publicUrl`.
      hosts: ['*'],
      origins: ['*'],
      maxBodyBytes: limits.maxBodyBytes,
      onError: (error) => logger.error('an MCP request failed', { error: String(error) }),
      logger,
    },
    closing,
  );
  const streams = new StreamRegistry(limits.maxStreamsPerOwner);
  closing.defer(() => streams.drain());
  const described = await withSkills(modules);
  const url = publicUrl ?? listening.url;
  const grpcUrl = grpc && (options.grpc?.publicUrl ?? new URL(grpc.url).host);
  const mounted = closing.use(
    await mountAgents(
      described,
      { url, grpcUrl },
      { log, runner, onRefusedAnswers },
      options,
      limits,
    ),
  );
  ready = mounted;
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
    httpRoute('GET', '/healthz', () => statusResponse(200, 'ok')),
    httpRoute('GET', '/readyz', async () => {
      if (state !== 'ready') return statusResponse(503, state);
      const { ok } = await readiness();
      return ok
        ? statusResponse(200, state)
        : statusResponse(503, 'the task store does not respond');
    }),
    forOperators(metrics.route, isOperator),
    ...mcp.routes,
    ...(mcp.routes.length > 0 && options.auth?.jwt ? [resourceRoute(url, options.auth.jwt)] : []),
    ...apiRoutes({
      tools: mcp.servers,
      agents: mounted.agents.map(({ name, description }) => ({
        name,
        description: description.description,
        ...(modules[name]?.options?.form && { form: modules[name].options.form }),
      })),
      ...common,
    }),
    ...outputRoutes({ ...common, agents: names }),
    ...events.routes(common),
    ...audit.routes.map((each) => forOperators(each, isOperator)),
    ...blobRoutes(blobsOf(modules, options.blobs)),
    ...(options.page === false ? [] : [...pageRoutes(), ...sessions.routes]),
  ];
  const router = createRouter(routes);
  route = async (request, owner) =>
    (await mounted.handle(request, owner)) ?? router(request, owner);
  closing.use(startRetention(log, options.retention, logger));
  closing.use(runner);
  closing.defer(() => {
    state = 'draining';
  });
  for (const resource of new Set(given.flatMap((each) => each?.resources ?? [])))
    resources.use(resource);
  state = 'ready';
  return {
    url: listening.url,
    ...(grpc && { grpcUrl: grpc.url }),
    log,
    audit: (entry) => audit.record(entry),
    [Symbol.asyncDispose]: () => closing[Symbol.asyncDispose](),
  };
}

/** The limits that a store enforces, for the store that serve() opens. */
export const queueLimit = ({
  maxQueuedPerOwner,
}: ServeLimits): Pick<ServeLimits, 'maxQueuedPerOwner'> =>
  maxQueuedPerOwner === undefined ? {} : { maxQueuedPerOwner };

/** Options of `openTaskLog()`. */
export interface StoreOptions
  extends Pick<LogOptions, 'blobs'>, Pick<ServeLimits, 'maxQueuedPerOwner'> {
  /** Gets the failures of the store. */
  readonly logger?: Logger;
}

/**
 * Opens a task log: in a SQLite file, which is created with its folder, or with `postgres://…` in the
 * database that replicas share.
 *
 * @example
 * ```ts
 * import { openTaskLog } from 'duolane/serve';
 *
 * await using log = await openTaskLog('.duolane/tasks.sqlite');
 * for await (const task of log.list({})) console.log(task.task, task.state);
 * ```
 */
export async function openTaskLog(file: string, options: StoreOptions = {}): Promise<TaskLog> {
  if (/^postgres(ql)?:\/\//.test(file)) {
    const { postgresLog } = await import('../task/postgres/postgres-log.ts');
    return postgresLog({ connectionString: file, ...options });
  }
  const { sqliteLog } = await import('../task/sqlite/sqlite-log.ts');
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  return sqliteLog({ file, ...options });
}

/**
 * Whether the request is a sign-in. It needs the secret or the token: a cookie must not renew
 * itself.
 */
const isSignIn = (request: Request): boolean =>
  request.method === 'POST' && urlOf(request).pathname === SESSION_PATH;

/** Whether a request needs no credentials: cards, health checks, and the page without its data. */
function isOpen(request: Request): boolean {
  const { pathname } = urlOf(request);
  return (
    pathname === '/healthz' ||
    pathname === '/readyz' ||
    pathname === RESOURCE_PATH ||
    isCardPath(pathname) ||
    isEventPath(pathname) ||
    (request.method !== 'POST' && (isPage(pathname) || pathname === SESSION_PATH))
  );
}
