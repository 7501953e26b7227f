import { DuolaneError, errorMessage } from '../../errors.ts';
import type { Frame, Logger } from '../../event/types.ts';
import { isObject, type JsonObject, omitUndefined } from '../../json.ts';
import { spawnProcess } from '../../process/spawn.ts';
import type { Transport } from '../../process/types.ts';
import { Disposer } from '../../stream/disposer.ts';
import { validateOptions, isBidirectional } from '../options/validate-options.ts';
import { flagsOf } from '../launch/cli-flags.ts';
import { HookRegistry } from '../callbacks/hook-registry.ts';
import { initializeFields } from '../launch/initialize-request.ts';
import { FrameQueue } from '../frames/frame-queue.ts';
import { environmentOf, isOwnCli, launchOf } from '../launch/cli-launch.ts';
import { defaultLogger } from '../launch/default-logger.ts';
import { safeLogger } from '../../event/safe-logger.ts';
import { McpBridge } from '../callbacks/mcp-bridge.ts';
import { usualConfigDir } from '../transcripts/link-config.ts';
import { restoreSession } from '../transcripts/restore-session.ts';
import { StoreMirror } from '../transcripts/store-mirror.ts';
import type { Launch, LaunchOptions, SessionOptions } from '../options/options.ts';
import { recordDecision } from '../callbacks/permission-handler.ts';
import { privateArgs } from '../launch/private-args.ts';
import { createControlHandler } from '../callbacks/control-handlers.ts';
import type { ControlHandler } from '../../wire/control-link.ts';
import type { ControlRequest } from '../../wire/control-peer.ts';
import { type ParsedServers, parseMcpServers } from '../options/mcp-servers-option.ts';
import { AgentSession } from './agent-session.ts';
import { toToolSource } from '../options/to-tool-source.ts';
import { customProcessTransport } from '../launch/custom-process.ts';
import { TraceWriter } from '../frames/trace-writer.ts';
import type { TimeoutLimits } from './session-timeouts.ts';

/** How long servers may take to provide a manifest before the CLI is started. */
const MANIFEST_MS = 250;
const MINUTE_MS = 60_000;

/** What only other parts of this package may choose. */
export interface InternalOptions {
  /**
   * Makes the mirror of the session store strict, and gets it. A request of the CLI is handled only
   * after the store has every entry that came before it, so that no effect is ahead of the
   * transcript. If the store fails, the requests do, too.
   */
  readonly onMirror?: (mirror: StoreMirror) => void;
  /** Called before a tool call or a question, after the store has all earlier entries. */
  readonly beforeRequest?: () => Promise<void>;
  /**
   * Name the in-process servers in the command line, too. The vendor's CLI connects to them before
   * it continues an unfinished turn then, and not while its first request is on its way.
   */
  readonly declareServers?: boolean;
}

/**
 * Validates the options and opens a session. If a step fails, everything that was opened is
 * released.
 */
export async function createSession(
  given: SessionOptions,
  signal?: AbortSignal,
  internal: InternalOptions = {},
): Promise<AgentSession> {
  const options = validateOptions(given);
  const servers = parseMcpServers(options);
  if (options.oneshot && isBidirectional(options, servers))
    throw new DuolaneError(
      'invalid',
      'oneshot closes stdin after the input, and tools, hooks or callbacks need it; remove oneshot',
    );
  const scope = new Disposer();
  try {
    return await createSessionParts(options, servers, scope, signal, internal);
  } catch (error) {
    await scope[Symbol.asyncDispose]().catch((failure: unknown) => {
      const logger = safeLogger(options.logger, defaultLogger);
      logger.warn('resources of the session were not released', { error: String(failure) });
    });
    throw error;
  }
}

/**
 * Opens the parts and the session. `scope` owns what is opened; the session disposes it after the
 * process exits.
 */
async function createSessionParts(
  options: SessionOptions,
  servers: ParsedServers,
  scope: Disposer,
  signal: AbortSignal | undefined,
  { onMirror, beforeRequest, declareServers = false }: InternalOptions,
): Promise<AgentSession> {
  const logger = safeLogger(options.logger, defaultLogger);
  signal?.throwIfAborted();
  const restored = await restoredConfig(options, scope, signal);
  const declared = declareServers
    ? Object.fromEntries(servers.sdk.map(({ name }) => [name, { type: 'sdk', name }]))
    : {};
  const flags = flagsOf(options, { configured: { ...servers.process, ...declared } });
  const isLocal = !options.transport && !options.spawnClaudeCodeProcess;
  const launch = launchOf(
    { ...options, ...restored },
    isLocal ? await privateArgs(flags, scope, { isOwnCli: isOwnCli(options), logger }) : flags,
  );
  const hooks = new HookRegistry(options.hooks);
  let session: AgentSession | undefined;
  const bridge = scope.use(
    new McpBridge({
      ask: options.ask,
      onElicitation: options.onElicitation,
      send: async (name, message) => session?.relay(name, message),
      onFailure: (server, error) =>
        logger.warn('an in-process server can no longer send messages', {
          server,
          error: String(error),
        }),
    }),
  );
  for (const { name, instance } of servers.sdk) bridge.add(name, await toToolSource(instance));
  const manifests =
    process.env['CLAUDE_AGENT_SDK_DISABLE_MCP_MANIFESTS'] === '1'
      ? {}
      : await bridge.manifests(MANIFEST_MS);
  const initialize = initializeFields(options, {
    hooks: hooks.registration,
    sdkServers: servers.sdk,
    manifests,
  });
  checkJson(initialize);
  const trace =
    options.trace === undefined
      ? undefined
      : new TraceWriter(options.trace, { ...launch, secrets: servers.process }, ({ message }) => {
          logger.error(message);
          lanes.pushHostMessage('trace_ended', { error: message });
        });
  if (trace) scope.use(trace);
  const taps = [options.onFrame, trace && ((frame: Frame) => trace.write(frame))];
  const lanes = new FrameQueue({
    lanes: options.lanes ?? 'message',
    sessionId: () => session?.id ?? '',
    taps: taps.filter((tap) => tap !== undefined),
    onTapError: (error) =>
      logger.error('a tap threw; it is not called again', { error: String(error) }),
    memoryBytes: options.memoryBytes,
    diskBytes: options.diskBytes,
  });
  const mirror = mirrorOf(options, scope, onMirror !== undefined, (fields) => {
    logger.warn('the session store failed', fields);
    lanes.pushHostMessage('mirror_error', fields);
  });
  if (mirror) onMirror?.(mirror);
  const handle = createControlHandler(options, {
    bridge,
    hooks,
    onDecision: (decision) => {
      logger.info('permission', { ...decision });
      if (session) recordDecision(decision, session.decisions, lanes);
    },
  });

  signal?.throwIfAborted();
  session = new AgentSession({
    transport: start(options, launch, logger),
    lanes,
    bridge,
    handle: mirror && onMirror ? afterFlush(mirror, beforeRequest, handle) : handle,
    initialize,
    checkInitialized: hooks.needsBlocking ? mustBlock : undefined,
    limits: limitsOf(options),
    maxLineBytes: options.maxLineBytes,
    logger,
    oneshot: options.oneshot ?? false,
    verbatim: options.verbatimPrompts,
    expectedId: options.sessionId ?? (options.forkSession ? undefined : options.resume),
    mirror,
    onEnded: () => scope[Symbol.asyncDispose](),
  });
  return session;
}

const hasEffect = ({ subtype, message }: ControlRequest): boolean =>
  subtype === 'mcp_message'
    ? isObject(message) && message['method'] === 'tools/call'
    : subtype === 'can_use_tool' || subtype === 'elicitation';

/** Handles requests when the store has all entries that came before them. */
const afterFlush =
  (
    mirror: StoreMirror,
    beforeRequest: InternalOptions['beforeRequest'],
    handle: ControlHandler,
  ): ControlHandler =>
  async (request, call) => {
    await mirror.flush();
    if (hasEffect(request)) await beforeRequest?.();
    return handle(request, call);
  };

function mirrorOf(
  { sessionStore }: SessionOptions,
  scope: Disposer,
  strict: boolean,
  onError: (fields: JsonObject) => void,
): StoreMirror | undefined {
  if (!sessionStore) return undefined;
  const mirror = new StoreMirror(
    sessionStore,
    ({ message }, key) => onError({ error: message, key }),
    { strict },
  );
  scope.defer(() => mirror.flush());
  return mirror;
}

/**
 * Restores a session of a store to a temporary folder, where the CLI resumes it. `scope` removes
 * the folder.
 */
async function restoredConfig(
  options: SessionOptions,
  scope: Disposer,
  signal: AbortSignal | undefined,
): Promise<LaunchOptions> {
  const { sessionStore, resume, cwd = process.cwd(), loadTimeoutMs = MINUTE_MS, env } = options;
  if (!sessionStore || resume === undefined) return {};
  const { configDir } = scope.use(
    await restoreSession(sessionStore, {
      cwd,
      sessionId: resume,
      timeoutMs: loadTimeoutMs,
      env: environmentOf(options),
      ...(signal && { signal }),
    }),
  );
  const inheritEnv = options.inheritEnv ?? env === undefined;
  return {
    env: {
      ...env,
      CLAUDE_CONFIG_DIR: configDir,
      // Our CLI hides this folder from commands in its sandbox, too.
      DUOLANE_USUAL_CONFIG_DIR: usualConfigDir(environmentOf(options)),
    },
    inheritEnv,
  };
}

function start(options: SessionOptions, launch: Launch, logger: Logger): Transport {
  const { transport, spawnClaudeCodeProcess, stderr, graceMs, killMs } = options;
  if (transport) return transport(launch);
  if (spawnClaudeCodeProcess)
    return customProcessTransport(spawnClaudeCodeProcess, launch, options);
  const onStderr = stderr && guarded(stderr, logger);
  return spawnProcess({ ...launch, ...omitUndefined({ graceMs, killMs, onStderr }) });
}

/**
 * Wraps the stderr callback. A pipe calls it, where an error would end the program: it is logged,
 * once.
 */
function guarded(stderr: (text: string) => void, logger: Logger): (text: string) => void {
  let isOff = false;
  return (text) => {
    try {
      if (!isOff) stderr(text);
    } catch (error) {
      isOff = true;
      logger.error('the stderr callback threw; it is not called again', { error: String(error) });
    }
  };
}

/**
 * Throws `invalid` for a field without a JSON form. The CLI would otherwise run without hooks and
 * servers.
 */
function checkJson(initialize: JsonObject): void {
  for (const [name, value] of Object.entries(initialize)) {
    try {
      JSON.stringify(value);
    } catch (cause) {
      const why = errorMessage(cause).split('\n', 1)[0];
      throw new DuolaneError('invalid', `${name} must have a JSON form: ${why}`, { cause });
    }
  }
}

function limitsOf(options: SessionOptions): TimeoutLimits {
  const { stall = { afterMs: 10 * MINUTE_MS } } = options;
  return {
    stall: stall ? { failMs: MINUTE_MS / 2, ...stall } : undefined,
    interruptMs: options.interruptMs ?? 10_000,
    readyMs: options.readyMs ?? MINUTE_MS,
    exitMs: options.exitMs ?? 10_000,
    cleanupMs: 1000,
  };
}

/** Throws `unsupported` for a CLI that would run an action although its hook failed. */
function mustBlock(answer: Readonly<Record<string, unknown>>): void {
  if (answer['hook_on_failure_supported'] !== true)
    throw new DuolaneError(
      'unsupported',
      "this CLI cannot block on a failing hook; set onFailure: 'continue', or use a newer CLI",
    );
}
