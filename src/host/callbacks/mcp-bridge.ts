import type { Ask } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { offerMessages } from '../../mcp/json-rpc/server/offer-messages.ts';
import { toolName } from '../../mcp/registry/tool-names.ts';
import type { MessageEndpoint, ToolProblem, ToolSource } from '../../mcp/types.ts';
import { abortable, onAbort } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Abortable } from '../../stream/types.ts';
import type { ControlResponse, ControlRequest } from '../../wire/control-peer.ts';
import { isRpcRequest } from '../../wire/json-rpc.ts';
import { askBy, type OnElicitation } from './elicitation.ts';
import type { ServerReady } from '../types.ts';

/** What the CLI gets for a notification, which has no answer of its own. */
const ACKNOWLEDGED: ControlResponse = {
  ok: true,
  response: { mcp_response: { jsonrpc: '2.0', result: {}, id: 0 } },
};

/** The version that the CLI speaks when it takes a manifest instead of a handshake. */
const MANIFEST_VERSION = '2025-11-25';

export interface BridgeOptions {
  readonly ask?: Ask;
  /** Answers what a server asks a person, unless `ask` does. */
  readonly onElicitation?: OnElicitation;
  /** Writes a message of a server to the CLI; resolves when there is room for the next. */
  readonly send: (server: string, message: JsonObject) => Promise<void>;
  /** What a server sends on its own has broken off; its tools can still be called. */
  readonly onFailure?: (server: string, error: unknown) => void;
}

interface Server {
  readonly name: string;
  /** Before the names of its tools, where the model sees them. */
  readonly prefix: string;
  readonly source: ToolSource;
  readonly end: MessageEndpoint;
  readonly pump: Promise<void>;
  /** Names that the CLI was given so far; `complete` once it has the last page. */
  readonly listed: Set<string>;
  complete: boolean;
  manifest?: JsonObject;
  failure?: string;
}

/**
 * The in-process servers of one session, behind `mcp_message`. Every call is its own: answers go
 * back under the control request's id, so equal JSON-RPC ids, id 0 and requests of a server cannot
 * be mistaken. The sources are shared with other sessions and never closed here.
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

  /** Answers `mcp_message`; undefined: the call was cancelled inside, nobody waits for an answer. */
  async serve(request: ControlRequest, caller: Abortable): Promise<ControlResponse | undefined> {
    const name = String(request['server_name']);
    const server = this.#servers.get(name);
    if (!server) {
      const known = this.names.join(', ') || 'none';
      return { ok: false, error: `no in-process server is named ${name} (there are: ${known})` };
    }
    const message = request['message'];
    if (!isObject(message)) return { ok: false, error: 'mcp_message without a message object' };
    const answer = await server.end.receive(bareNamed(message, server.prefix), caller);
    if (answer) {
      if (message['method'] === 'tools/list') this.#sawList(server, message, answer);
      return { ok: true, response: { mcp_response: answer } };
    }
    return isRpcRequest(message) ? undefined : ACKNOWLEDGED;
  }

  /**
   * The handshake of every server that manages it within the budget, for `initialize`: the CLI
   * then asks for none of it. A slower server is asked by the CLI, as ever.
   */
  async manifests(budgetMs: number): Promise<Readonly<Record<string, JsonObject>>> {
    const found = await Promise.all(
      [...this.#servers.values()].map(async (server) => {
        // Each its own: they listen to it, and there may be many.
        const signal = AbortSignal.timeout(budgetMs);
        const late = new Promise<undefined>((resolve) => onAbort(signal, () => resolve(undefined)));
        const manifest = await Promise.race([manifestOf(server.end, signal), late]);
        if (manifest) server.manifest = manifest;
        return [server.name, manifest] as const;
      }),
    );
    return Object.fromEntries(found.flatMap(([name, each]) => (each ? [[name, each]] : [])));
  }

  /** The CLI said which manifests it took: for those it will not list again. */
  tookManifests(parked: unknown): void {
    if (!isObject(parked)) return;
    for (const server of this.#servers.values()) {
      if (parked[server.name] === 'parked') this.#takeManifest(server);
    }
  }

  /**
   * What the CLI says about its servers; returns those of ours that are not connected, each once.
   * A server may be absent from `mcp_status` because its handshake is still to come; in
   * `system/init`, where the turn begins without it, it is missing.
   */
  observe(
    servers: unknown,
    { turnBegins }: { readonly turnBegins: boolean },
  ): readonly { readonly server: string; readonly status: string }[] {
    if (!Array.isArray(servers)) return [];
    const statuses = new Map<unknown, string>();
    for (const each of servers)
      if (isObject(each)) statuses.set(each['name'], String(each['status']));
    const missing: { server: string; status: string }[] = [];
    for (const server of this.#servers.values()) {
      const status = statuses.get(server.name) ?? (turnBegins ? 'absent' : 'pending');
      if (status === 'connected') {
        delete server.failure; // it may have been connected again
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

  /** Whether any server is neither listed nor known to have failed. */
  get waits(): boolean {
    return [...this.#servers.values()].some((server) => !server.complete && !server.failure);
  }

  /** Whether a server had failed when the CLI last spoke of it. */
  get hasFailed(): boolean {
    return [...this.#servers.values()].some((server) => server.failure !== undefined);
  }

  /** Resolves when every server was listed in full; rejects naming those that were not. */
  async ready(signal: AbortSignal): Promise<readonly ServerReady[]> {
    const servers = [...this.#servers.values()];
    const unlisten = onAbort(signal, () => this.#changed());
    try {
      while (this.waits) {
        if (signal.aborted) throw this.#notReady(servers, signal.reason);
        await new Promise<void>((resolve) => this.#waiters.add(resolve));
      }
    } finally {
      unlisten();
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

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    await Promise.all(this.names.map((name) => this.remove(name)));
  }

  #changed(): void {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const wake of waiters) wake();
  }

  #sawList(server: Server, message: JsonObject, answer: JsonObject): void {
    const result = isObject(answer['result']) ? answer['result'] : undefined;
    if (!result) return;
    const params = isObject(message['params']) ? message['params'] : {};
    if (params['cursor'] === undefined) server.listed.clear();
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
    const words = [
      ...servers
        .filter((server) => server.failure ?? !server.complete)
        .map(
          ({ name, failure }) =>
            `${name} did not list its tools (${failure ?? 'not asked yet; an older CLI asks with its first turn'})`,
        ),
      ...partly.map(
        ({ name, registered, listed, problems = [] }) =>
          `${name}: registered ${registered}, listed ${listed}${reasons(problems)}`,
      ),
    ];
    const message = `in-process servers are not ready: ${words.join('; ')}; the model cannot call what is missing`;
    return new DuolaneError(
      cause === undefined ? 'invalid' : DuolaneError.from(cause).code,
      message,
      {
        cause,
      },
    );
  }
}

const incomplete = ({ registered, listed }: ServerReady): boolean => registered !== listed;

async function relay(
  end: MessageEndpoint,
  send: (message: JsonObject) => Promise<void>,
): Promise<void> {
  for await (const message of end.outgoing) await send(message);
}

/** The model's name of a tool is taken for the bare one, which is what the wire has today. */
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
  // A list of several pages is left to the CLI: a manifest holds one.
  if (!isObject(toolsListResult) || typeof toolsListResult['nextCursor'] === 'string')
    return undefined;
  return { initializeResult, toolsListResult };
}

const namesIn = (result: JsonObject): readonly string[] =>
  Array.isArray(result['tools'])
    ? result['tools'].flatMap((tool) => (isObject(tool) ? [String(tool['name'])] : []))
    : [];

async function countOf(name: string, source: ToolSource, scope: AbortSignal): Promise<number> {
  let count = 0;
  // Derived: there may be many sources, and each listens to it.
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

/** The tools that a registry had to leave out. */
const problemsOf = (source: ToolSource): readonly ToolProblem[] =>
  'problems' in source && Array.isArray(source.problems)
    ? (source.problems as readonly ToolProblem[])
    : [];

const reasons = (problems: readonly ToolProblem[]): string =>
  problems.length === 0 ? '' : ` (${problems.map(({ error }) => error.message).join('; ')})`;
