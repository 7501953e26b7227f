import { randomUUID } from 'node:crypto';
import { isAbsolute } from 'node:path';
import {
  DuolaneError,
  errorMessage,
  invalid,
  notFound,
  unauthorized,
  unsupported,
} from '../../errors.ts';
import { asObject, asObjects, asString, asStrings, isObject, type JsonObject } from '../../json.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { ACP_ERROR, ACP_VERSION } from '../../wire/acp-protocol.ts';
import type { ControlRequest } from '../../wire/control-peer.ts';
import { RPC, rpcError, type RpcError, type RpcId } from '../../wire/json-rpc.ts';
import { toRpcError } from '../../wire/json-rpc-errors.ts';
import { RpcLink } from '../../wire/rpc-link.ts';
import { transcriptBranch } from '../../wire/transcript.ts';
import { placeOf } from '../session/open-session.ts';
import { findSession, readEntries } from '../session/transcript.ts';
import { VERSION } from '../version.ts';
import { ChildSession } from './child-session.ts';
import { FrameUpdates, historyUpdates } from './frame-updates.ts';
import { promptContent } from './prompt-content.ts';
import { describeToolCall } from './tool-updates.ts';

export interface AcpServerOptions {
  /** The file of `duolane-agent`. */
  readonly command: string;
  /** The arguments of each session. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly send: (message: JsonObject) => void;
  /** Resolves when the client accepts more. */
  readonly drained: () => Promise<void>;
  readonly note: (text: string) => void;
}

/** How many sessions one editor may have open. */
const MAX_SESSIONS = 100;
const SESSION_ID = /^[\w-]{1,128}$/;

const MODES: readonly JsonObject[] = [
  { id: 'default', name: 'Ask', description: 'Asks before each call that no rule allows' },
  { id: 'acceptEdits', name: 'Accept edits', description: 'Changes files without asking' },
  { id: 'plan', name: 'Plan', description: 'Reads, and changes nothing' },
];

const AUTH_METHODS: readonly JsonObject[] = [
  {
    id: 'api-key',
    name: 'API key',
    description:
      'Set ANTHROPIC_API_KEY, or --model and the key of its provider, in the environment',
  },
];

/**
 * `duolane-agent` as an agent of the Agent Client Protocol, for editors. It passes the requests of
 * the client to a process for each session, and their messages back as updates.
 */
export class AcpServer implements AsyncDisposable {
  readonly #options: AcpServerOptions;
  readonly #link: RpcLink;
  readonly #sessions = new Map<string, ChildSession>();
  /** The sessions that are being loaded. */
  readonly #loading = new Set<string>();
  #isClosed = false;
  #client: JsonObject | undefined;

  constructor(options: AcpServerOptions) {
    this.#options = options;
    this.#link = new RpcLink({
      send: options.send,
      handle: (method, params) => this.#handle(method, params),
      onNotification: (method, params) => {
        if (method === 'session/cancel')
          this.#sessions.get(asString(params['sessionId']))?.cancel();
      },
      onIgnored: (why) => options.note(`the client sent ${why}`),
      toError,
    });
  }

  receive(message: unknown): void {
    this.#link.receive(message);
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    this.#isClosed = true;
    this.#link.fail(new DuolaneError('closed', 'the client has disconnected'));
    const closing = [...this.#sessions.values()].map((each) => each[Symbol.asyncDispose]());
    for (const each of closing)
      await each.catch((error: unknown) =>
        this.#options.note(`cannot close a session cleanly: ${errorMessage(error)}`),
      );
  });

  async #handle(method: string, params: JsonObject): Promise<JsonObject> {
    if (method === 'initialize') return this.#initialize(params);
    if (!this.#client)
      throw new DuolaneError('malformed', `cannot handle ${method}: send initialize first`);
    switch (method) {
      case 'authenticate':
        return this.#authenticate(params);
      case 'session/new':
        return this.#open(randomUUID(), params, []);
      case 'session/load':
        return this.#load(params, { replay: true });
      case 'session/resume':
        return this.#load(params, { replay: false });
      case 'session/close':
        return this.#close(params);
      case 'session/set_mode':
        return this.#setMode(params);
      case 'session/prompt':
        return this.#find(params).prompt(promptContent(params['prompt']));
      default:
        throw unsupported(`the method "${method}" is not supported`);
    }
  }

  #initialize({ clientCapabilities }: JsonObject): JsonObject {
    this.#client = asObject(clientCapabilities);
    return {
      // A client that speaks only another version disconnects.
      protocolVersion: ACP_VERSION,
      agentInfo: { name: 'duolane-agent', title: 'Duolane', version: VERSION },
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, audio: false, embeddedContext: true },
        mcpCapabilities: { http: true, sse: true },
        sessionCapabilities: { close: {}, resume: {}, additionalDirectories: {} },
      },
      authMethods: AUTH_METHODS,
    };
  }

  #authenticate({ methodId }: JsonObject): JsonObject {
    if (methodId !== 'api-key')
      throw invalid(`unknown authentication method "${asString(methodId)}": expected "api-key"`);
    const { args, env } = this.#options;
    const names = [
      'ANTHROPIC_API_KEY',
      'ANTHROPIC_AUTH_TOKEN',
      'ANTHROPIC_BASE_URL',
      'DUOLANE_MODEL',
    ];
    if (names.some((name) => env[name]) || args.includes('--model')) return {};
    throw unauthorized('no key is set; set ANTHROPIC_API_KEY in the environment of the editor');
  }

  async #load(params: JsonObject, { replay }: { readonly replay: boolean }): Promise<JsonObject> {
    const id = asString(params['sessionId']);
    const cwd = cwdOf(params);
    if (!SESSION_ID.test(id)) throw sessionNotFound(id);
    if (this.#loading.has(id))
      throw invalid(`cannot load session "${id}": it is being loaded; wait for the response`);
    this.#loading.add(id);
    try {
      const file = await findSession(placeOf(this.#options.env, cwd), id);
      if (file === undefined) throw sessionNotFound(id);
      if (this.#sessions.has(id)) await this.#close(params);
      const { sessionId: _, ...response } = await this.#open(id, params, ['--resume', id]);
      if (!replay) return response;
      const entries = transcriptBranch(await readEntries(file)) ?? [];
      for (const update of historyUpdates(entries, cwd)) this.#update(id, update);
      return response;
    } finally {
      this.#loading.delete(id);
    }
  }

  async #open(id: string, params: JsonObject, flags: readonly string[]): Promise<JsonObject> {
    const cwd = cwdOf(params);
    const servers = mcpServersOf(params['mcpServers']);
    if (this.#isClosed) throw new DuolaneError('closed', 'the client has disconnected');
    if (this.#sessions.size >= MAX_SESSIONS)
      throw new DuolaneError(
        'overloaded',
        `the open sessions exceed ${MAX_SESSIONS}; close one first`,
      );
    const { command, args } = this.#options;
    const notices = isObject(asObject(this.#client?.['session'])['notices']);
    const updates = new FrameUpdates({ cwd, notices });
    const folders = foldersOf(params).flatMap((path) => ['--add-dir', path]);
    const session = new ChildSession({
      command,
      args: [...args, ...(flags.length > 0 ? flags : ['--session-id', id]), ...folders],
      cwd,
      onFrame: (frame) => {
        for (const update of updates.read(frame)) this.#update(id, update);
      },
      drained: () => this.#options.drained(),
      ask: (request, signal) => this.#ask(id, cwd, request, signal),
    });
    this.#sessions.set(id, session);
    try {
      await session.request({ subtype: 'initialize' });
      if (Object.keys(servers).length > 0)
        await session.request({ subtype: 'mcp_set_servers', servers });
    } catch (error) {
      this.#sessions.delete(id);
      await session[Symbol.asyncDispose]();
      throw error;
    }
    return { sessionId: id, modes: { currentModeId: modeOf(args), availableModes: MODES } };
  }

  async #close(params: JsonObject): Promise<JsonObject> {
    const session = this.#find(params);
    this.#sessions.delete(asString(params['sessionId']));
    await session[Symbol.asyncDispose]();
    return {};
  }

  async #setMode(params: JsonObject): Promise<JsonObject> {
    const session = this.#find(params);
    const mode = asString(params['modeId']);
    if (!MODES.some(({ id }) => id === mode))
      throw invalid(
        `unknown mode "${mode}": expected ${MODES.map(({ id }) => `"${asString(id)}"`).join(', ')}`,
      );
    await session.request({ subtype: 'set_permission_mode', mode });
    return {};
  }

  #find(params: JsonObject): ChildSession {
    const id = asString(params['sessionId']);
    const session = this.#sessions.get(id);
    if (!session) throw sessionNotFound(id);
    return session;
  }

  #update(sessionId: string, update: JsonObject): void {
    this.#link.notify('session/update', { sessionId, update });
  }

  /** Passes a question of a session to the person at the editor. */
  async #ask(
    sessionId: string,
    cwd: string,
    request: ControlRequest,
    signal: AbortSignal,
  ): Promise<JsonObject> {
    if (request.subtype === 'can_use_tool')
      return this.#permission(sessionId, cwd, request, signal);
    if (request.subtype !== 'elicitation')
      throw unsupported(`the request "${request.subtype}" is not supported over ACP`);
    if (!isObject(asObject(this.#client?.['elicitation'])['form']) || request['mode'] === 'url')
      return { action: 'decline' };
    const { message, requested_schema: requestedSchema } = request;
    const params = { sessionId, mode: 'form', message, requestedSchema };
    return asObject(await this.#link.request('elicitation/create', params, { signal }));
  }

  /** Everything except a choice that allows denies the call. */
  async #permission(
    sessionId: string,
    cwd: string,
    request: ControlRequest,
    signal: AbortSignal,
  ): Promise<JsonObject> {
    const input = asObject(request['input']);
    const call = describeToolCall(
      asString(request['tool_use_id']),
      asString(request['tool_name']),
      input,
      cwd,
    );
    const updates = asObjects(request['permission_suggestions']);
    const options = [
      { optionId: 'allow', name: 'Allow', kind: 'allow_once' },
      ...(updates.length > 0
        ? [{ optionId: 'always', name: 'Allow for this session', kind: 'allow_always' }]
        : []),
      { optionId: 'reject', name: 'Reject', kind: 'reject_once' },
    ];
    const params = { sessionId, toolCall: { ...call, status: 'pending' }, options };
    const response = asObject(
      await this.#link.request('session/request_permission', params, { signal }),
    );
    const { outcome, optionId } = asObject(response['outcome']);
    if (outcome === 'selected' && optionId === 'allow')
      return { behavior: 'allow', updatedInput: input };
    if (outcome === 'selected' && optionId === 'always' && updates.length > 0)
      return { behavior: 'allow', updatedInput: input, updatedPermissions: updates };
    const message = 'The user rejected this call.';
    return { behavior: 'deny', message, interrupt: outcome === 'cancelled' };
  }
}

const sessionNotFound = (id: string): DuolaneError =>
  notFound(`session "${id}" not found; it may have been closed or deleted`);

function cwdOf({ cwd }: JsonObject): string {
  if (typeof cwd !== 'string' || !isAbsolute(cwd))
    throw invalid('invalid cwd: expected an absolute path');
  return cwd;
}

/** The further directories of a session, as absolute paths, which the protocol wants. */
function foldersOf({ additionalDirectories }: JsonObject): readonly string[] {
  const folders = asStrings(additionalDirectories);
  if (folders.every((path) => isAbsolute(path))) return folders;
  throw invalid('invalid additionalDirectories: expected absolute paths');
}

/** The mode that the arguments select. */
function modeOf(args: readonly string[]): string {
  const at = args.indexOf('--permission-mode');
  const mode = at === -1 ? undefined : args[at + 1];
  return MODES.some(({ id }) => id === mode) ? (mode as string) : 'default';
}

/** The tool servers of the editor in the form of `--mcp-config`. */
function mcpServersOf(given: unknown): JsonObject {
  if (!Array.isArray(given)) {
    if (given === undefined) return {};
    throw invalid('invalid mcpServers: expected a list');
  }
  return Object.fromEntries(
    asObjects(given).map((server) => {
      const { name, type, url, headers, command, args, env } = server;
      if (typeof name !== 'string' || name === '')
        throw invalid('invalid server in mcpServers: expected a name');
      if (type === 'http' || type === 'sse')
        return [name, { type, url, headers: valuesOf(headers) }];
      if (type !== undefined && type !== 'stdio')
        throw unsupported(
          `the type "${asString(type)}" of the MCP server "${name}" is not supported`,
        );
      return [name, { type: 'stdio', command, args, env: valuesOf(env) }];
    }),
  );
}

const valuesOf = (pairs: unknown): Readonly<Record<string, string>> =>
  Object.fromEntries(asObjects(pairs).map(({ name, value }) => [asString(name), asString(value)]));

/** The error response for what a handler threw, with the codes of the protocol. */
function toError(id: RpcId, reason: unknown): RpcError {
  const error = DuolaneError.from(reason);
  if (error.code === 'unauthorized') return rpcError(id, ACP_ERROR.authRequired, error.message);
  if (error.code === 'not_found') return rpcError(id, ACP_ERROR.notFound, error.message);
  const { duolane } = asObject(error.cause);
  // The failure of the model is the user's to see: it is the editor's own session.
  if (isObject(duolane))
    return rpcError(id, RPC.internalError, errorMessage(error), {
      duolane,
      status: duolane['status'],
    });
  return toRpcError(id, error);
}
