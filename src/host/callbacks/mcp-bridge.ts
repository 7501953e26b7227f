import type { Ask } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { asObject, asObjects, isObject, type JsonObject } from '../../json.ts';
import { offerMessages } from '../../mcp/json-rpc/server/offer-messages.ts';
import { toolName } from '../../mcp/registry/tool-names.ts';
import type { MessageEndpoint, ToolProblem, ToolSource } from '../../mcp/types.ts';
import { abortable, raceAbort } from '../../stream/abort.ts';
import { addListener, waitForWake } from '../../stream/cancellable-generator.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Abortable } from '../../stream/types.ts';
import type { ControlResponse, ControlRequest } from '../../wire/control-peer.ts';
import { isRpcRequest } from '../../wire/json-rpc.ts';
import { askBy, type OnElicitation } from './elicitation.ts';
import type { ServerReady } from '../types.ts';

/**
 * The response to a notification: JSON-RPC has none, but the CLI waits for one to its control
 * request.
 */
const ACKNOWLEDGED: ControlResponse = {
  ok: true,
  response: { mcp_response: { jsonrpc: '2.0', result: {}, id: 0 } },
};

/** The protocol version that the CLI uses if it accepts a manifest instead of a handshake. */
const MANIFEST_VERSION = '2025-11-25';

export interface BridgeOptions {
  readonly ask?: Ask | undefined;
  /** Answers the questions of a server, unless `ask` is set. */
  readonly onElicitation?: OnElicitation | undefined;
  /** Writes a message of a server to the CLI; resolves when the pipe has room for the next. */
  readonly send: (server: string, message: JsonObject) => Promise<void>;
  /** Called when a server can no longer send its own messages; its tools can still be called. */
  readonly onFailure?: (server: string, error: unknown) => void;
}

interface Server {
  readonly name: string;
  /** The prefix of its tool names in the model's view: `mcp__server__`. */
  readonly prefix: string;
  readonly source: ToolSource;
  readonly end: MessageEndpoint;
  readonly pump: Promise<void>;
  /** Tool names that the CLI has listed so far; `complete` after the last page. */
  readonly listed: Set<string>;
  complete: boolean;
  manifest?: JsonObject;
  failure?: string;
}

/**
 * The in-process servers of one session, which the CLI reaches with `mcp_message`. Each result is
 * sent under the id of its control request, so equal JSON-RPC ids, id 0 and requests of a server
 * cannot be confused. The sources are shared with other sessions and never closed here.
 */
export class McpBridge implements AsyncDisposable {
  readonly #options: BridgeOptions;
  readonly #servers = new Map<string, Server>();
  readonly #waiters = new Set<() => void>();

  constructor(options: BridgeOptions) {
    this.#options = options;
  }

  get names(): readonly string[] {
    return [...this.#servers.keys()];
  }

  add(name: string, source: ToolSource): void {
    const { send, onElicitation } = this.#options;
    const ask = this.#options.ask ?? (onElicitation && askBy(onElicitation, name));
    const end = offerMessages(source, ask ? { ask } : {});
    const pump = relay(end, (message) => send(name, message)).catch((error: unknown) =>
      this.#options.onFailure?.(name, error),
    );
    const prefix = toolName(name, '');
    const server = { name, prefix, source, end, pump, listed: new Set<string>(), complete: false };
    this.#servers.set(name, server);
  }

  async remove(name: string): Promise<void> {
    const server = this.#servers.get(name);
    this.#servers.delete(name);
    await server?.end[Symbol.asyncDispose]();
    await server?.pump;
  }

  /**
   * Handles `mcp_message`. Undefined leaves it unanswered: the CLI cancelled the call inside the
   * payload.
   */
  async serve(request: ControlRequest, caller: Abortable): Promise<ControlResponse | undefined> {
    const name = String(request['server_name']);
    const server = this.#servers.get(name);
    if (!server) {
      const known = this.names.join(', ') || 'none';
      return { ok: false, error: `unknown in-process server "${name}"; available: ${known}` };
    }
    const message = request['message'];
    if (!isObject(message)) return { ok: false, error: 'mcp_message must have a message object' };
    const answer = await server.end.receive(bareNamed(message, server.prefix), caller);
    if (answer) {
      if (message['method'] === 'tools/list') this.#sawList(server, message, answer);
      return { ok: true, response: { mcp_response: answer } };
    }
    return isRpcRequest(message) ? undefined : ACKNOWLEDGED;
  }

  /**
   * The handshake and tool list of every server that completes them within the budget, for
   * `initialize`: the CLI then sends no requests for them. The CLI asks a slower server itself.
   */
  async manifests(budgetMs: number): Promise<Readonly<Record<string, JsonObject>>> {
    const found = await Promise.all(
      [...this.#servers.values()].map(async (server) => {
        // One signal per server: many listeners on one signal cause a warning of Node.js.
        const signal = AbortSignal.timeout(budgetMs);
        const manifest = await raceAbort(manifestOf(server.end, signal), signal).catch((error) => {
          if (signal.aborted) return undefined;
          throw error;
        });
        if (manifest) server.manifest = manifest;
        return [server.name, manifest] as const;
      }),
    );
    return Object.fromEntries(found.flatMap(([name, each]) => (each ? [[name, each]] : [])));
  }

  /** The CLI reported which manifests it accepted. It does not list those servers again. */
  tookManifests(parked: unknown): void {
    if (!isObject(parked)) return;
    for (const server of this.#servers.values()) {
      if (parked[server.name] === 'parked') this.#takeManifest(server);
    }
  }

  /**
   * Reads the server list of the CLI. Returns the in-process servers that are not connected, each
   * once. A server that is absent from `mcp_status` may still be in its handshake; one that is
   * absent from `system/init` is missing, because the turn begins without it.
   */
  observe(
    servers: unknown,
    { turnBegins }: { readonly turnBegins: boolean },
  ): readonly { readonly server: string; readonly status: string }[] {
    if (!Array.isArray(servers)) return [];
    const statuses = new Map<unknown, string>();
    for (const each of asObjects(servers)) statuses.set(each['name'], String(each['status']));
    const missing: { server: string; status: string }[] = [];
    for (const server of this.#servers.values()) {
      const status = statuses.get(server.name) ?? (turnBegins ? 'absent' : 'pending');
      if (status === 'connected') {
        delete server.failure; // the CLI may have reconnected it
        this.#takeManifest(server);
      }
      if (status !== 'connected' && status !== 'pending' && !server.failure) {
        server.failure = status;
        missing.push({ server: server.name, status });
      }
    }
    this.#changed();
    return missing;
  }

  /** Whether a server is neither listed completely nor known to have failed. */
  get waits(): boolean {
    return [...this.#servers.values()].some((server) => !server.complete && !server.failure);
  }

  /** Whether the last status of a server was a failure. */
  get hasFailed(): boolean {
    return [...this.#servers.values()].some((server) => server.failure !== undefined);
  }

  /**
   * Resolves when the CLI has listed every server completely; rejects with the names of those it
   * has not.
   */
  async ready(signal: AbortSignal): Promise<readonly ServerReady[]> {
    const servers = [...this.#servers.values()];
    while (this.waits) {
      if (signal.aborted) throw this.#notReady(servers, signal.reason);
      await waitForWake((wake) => addListener(this.#waiters, wake), signal);
    }
    const ready = await Promise.all(
      servers.map(async ({ name, source, listed }): Promise<ServerReady> => {
        const problems = problemsOf(source);
        const registered = (await countOf(name, source, signal)) + problems.length;
        return { name, registered, listed: listed.size, ...(problems.length > 0 && { problems }) };
      }),
    );
    if (servers.some((server) => server.failure) || ready.some(incomplete))
      throw this.#notReady(servers, undefined, ready.filter(incomplete));
    return ready;
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() =>
    Promise.all(this.names.map((name) => this.remove(name))),
  );

  #changed(): void {
    for (const wake of this.#waiters) wake();
  }

  #sawList(server: Server, message: JsonObject, answer: JsonObject): void {
    const result = isObject(answer['result']) ? answer['result'] : undefined;
    if (!result) return;
    if (asObject(message['params'])['cursor'] === undefined) server.listed.clear();
    for (const name of namesIn(result)) server.listed.add(name);
    server.complete = typeof result['nextCursor'] !== 'string';
    if (server.complete) delete server.failure;
    this.#changed();
  }

  #takeManifest(server: Server): void {
    if (server.complete || !server.manifest) return;
    for (const name of namesIn(server.manifest['toolsListResult'] as JsonObject))
      server.listed.add(name);
    server.complete = true;
    this.#changed();
  }

  #notReady(
    servers: readonly Server[],
    cause: unknown,
    partly: readonly ServerReady[] = [],
  ): DuolaneError {
    const reasons = [
      ...servers
        .filter((server) => server.failure ?? !server.complete)
        .map(
          ({ name, failure }) =>
            `${name} did not list its tools (${failure ?? 'not asked yet; an older CLI asks with its first turn'})`,
        ),
      ...partly.map(
        ({ name, registered, listed, problems = [] }) =>
          `${name}: registered ${registered}, listed ${listed}${problemTexts(problems)}`,
      ),
    ];
    const message = `in-process servers are not ready: ${reasons.join('; ')}; the model cannot call the missing tools`;
    const code = cause === undefined ? 'invalid' : DuolaneError.from(cause).code;
    return new DuolaneError(code, message, { cause });
  }
}

const incomplete = ({ registered, listed }: ServerReady): boolean => registered !== listed;

async function relay(
  end: MessageEndpoint,
  send: (message: JsonObject) => Promise<void>,
): Promise<void> {
  for await (const message of end.outgoing) await send(message);
}

/**
 * Strips the prefix of a tool name: current CLIs send the bare name, others the name that the model
 * sees.
 */
function bareNamed(message: JsonObject, prefix: string): JsonObject {
  if (message['method'] !== 'tools/call' || !isObject(message['params'])) return message;
  const { name } = message['params'];
  if (typeof name !== 'string' || !name.startsWith(prefix)) return message;
  return { ...message, params: { ...message['params'], name: name.slice(prefix.length) } };
}

async function manifestOf(
  end: MessageEndpoint,
  signal: AbortSignal,
): Promise<JsonObject | undefined> {
  const ask = async (id: number, method: string, params: JsonObject): Promise<unknown> =>
    (await end.receive({ jsonrpc: '2.0', id, method, params }, { signal }))?.['result'];
  const initializeResult = await ask(0, 'initialize', {
    protocolVersion: MANIFEST_VERSION,
    capabilities: {},
    clientInfo: { name: 'duolane', version: '1' },
  });
  if (!isObject(initializeResult) || initializeResult['protocolVersion'] !== MANIFEST_VERSION)
    return undefined;
  await end.receive({ jsonrpc: '2.0', method: 'notifications/initialized' });
  const toolsListResult = await ask(1, 'tools/list', {});
  // A manifest holds one page, so the CLI itself lists a server with several pages.
  if (!isObject(toolsListResult) || typeof toolsListResult['nextCursor'] === 'string')
    return undefined;
  return { initializeResult, toolsListResult };
}

const namesIn = (result: JsonObject): readonly string[] =>
  asObjects(result['tools']).map((tool) => String(tool['name']));

async function countOf(name: string, source: ToolSource, scope: AbortSignal): Promise<number> {
  let count = 0;
  // A derived signal per source: many listeners on one signal cause a warning of Node.js.
  const signal = AbortSignal.any([scope]);
  try {
    for await (const _ of abortable(source.listTools({ signal }), signal)) count += 1;
  } catch (cause) {
    const { code, message } = DuolaneError.from(cause);
    const what = `in-process servers are not ready: ${name} cannot list its tools: ${message}`;
    throw new DuolaneError(code, what, { cause });
  }
  return count;
}

/** The tools that a registry left out, each with its error. */
const problemsOf = (source: ToolSource): readonly ToolProblem[] =>
  'problems' in source && Array.isArray(source.problems)
    ? (source.problems as readonly ToolProblem[])
    : [];

const problemTexts = (problems: readonly ToolProblem[]): string =>
  problems.length === 0 ? '' : ` (${problems.map(({ error }) => error.message).join('; ')})`;
