import { DuolaneError } from '../../../errors.ts';
import { asArray, asObject, asString, isObject, type JsonObject } from '../../../json.ts';
import { disposeOnce } from '../../../stream/dispose-once.ts';
import type { Tool } from '../../../mcp/types.ts';
import type { ControlLink } from '../../../wire/control-link.ts';
import { dialConfig, dialHost, type DialHelp } from './dial-server.ts';
import type { ControlTransport } from './control-transport.ts';
import { Server, type ServerDialer, type ServerEvents } from './mcp-server.ts';
import type { AgentTool } from '../types.ts';

export interface ServersOptions {
  readonly lane: ControlLink;
  readonly events: ServerEvents;
  readonly help: DialHelp;
  /** `MCP_TOOL_TIMEOUT`: the timeout of a call for servers without a timeout of their own. */
  readonly toolTimeoutMs?: number | undefined;
}

/** All MCP servers of a session: those inside the host and those of `--mcp-config`. */
export class McpServers implements AsyncDisposable {
  readonly #options: ServersOptions;
  readonly #servers = new Map<string, Server>();
  readonly #inside = new Map<string, ControlTransport>();
  /** The names of tools that two servers have and that were reported. */
  readonly #ambiguous = new Set<string>();
  /** The names of servers that `replace` added. */
  readonly #set = new Set<string>();
  /**
   * The last change of the list. Changes run one after the other, since each depends on the list.
   */
  #changing: Promise<unknown> = Promise.resolve();

  constructor(options: ServersOptions) {
    this.#options = options;
  }

  /** Adds a server and starts to connect, without waiting. Replaces a server of the same name. */
  add(name: string, config: JsonObject, manifest?: JsonObject): void {
    const known = this.#servers.get(name);
    // The server is replaced either way; the host's log gets a failure to disconnect.
    known?.disconnect().catch((reason: unknown) => {
      const why = DuolaneError.from(reason).message;
      this.#options.events.log(name, 'warning', `cannot disconnect the server: ${why}`);
    });
    const dialer =
      config['type'] === 'sdk' ? this.#inHost(name, config, manifest) : this.#outside(name, config);
    const server = new Server(name, dialer, this.#options.events);
    this.#servers.set(name, server);
    server.connect();
  }

  has(name: string): boolean {
    return this.#servers.has(name);
  }

  /** Adds the servers of `{mcpServers: {…}}`. */
  addAll(config: JsonObject): void {
    for (const [name, server] of Object.entries(asObject(config['mcpServers']))) {
      if (isObject(server)) this.add(name, server);
    }
  }

  /** Handles `mcp_set_servers`: replaces the servers inside the host and those of earlier calls. */
  async replace(servers: JsonObject): Promise<JsonObject> {
    const errors: Record<string, string> = {};
    const { added, removed } = await this.#inTurn(() => this.#change(servers, errors));
    // Not awaited: a server inside the host may respond only after this request is answered.
    const dialled = added.filter((name) => asObject(servers[name])['type'] !== 'sdk');
    await Promise.all(dialled.map(async (name) => this.#servers.get(name)?.ready()));
    for (const name of added) {
      const described = this.#servers.get(name)?.describe();
      if (described?.['status'] === 'failed') errors[name] = asString(described['error']);
    }
    return { added, removed, errors };
  }

  async #change(
    servers: JsonObject,
    errors: Record<string, string>,
  ): Promise<{ readonly added: readonly string[]; readonly removed: readonly string[] }> {
    const stays = (name: string): boolean => Object.hasOwn(servers, name);
    const removed = [...this.#servers.values()]
      .filter(
        ({ name, dialer }) => !stays(name) && (dialer.transport === 'sdk' || this.#set.has(name)),
      )
      .map(({ name }) => name);
    await Promise.all(removed.map((name) => this.#remove(name)));
    const added: string[] = [];
    for (const [name, config] of Object.entries(servers)) {
      if (!isObject(config)) errors[name] = 'invalid configuration: expected an object';
      else if (!this.#servers.has(name) || config['type'] !== 'sdk') {
        this.add(name, config);
        this.#set.add(name);
        added.push(name);
      }
    }
    return { added, removed };
  }

  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const changed = this.#changing.then(change);
    // The caller gets the failure; the next change starts either way.
    this.#changing = changed.catch(() => {});
    return changed;
  }

  async toggle(name: string, enabled: boolean): Promise<void> {
    await this.#inTurn(async () => {
      const server = this.#get(name);
      await server.disconnect();
      if (enabled) this.add(name, server.dialer.config);
    });
    await this.#servers.get(name)?.ready();
  }

  async reconnect(name: string): Promise<void> {
    await this.toggle(this.#get(name).name, true);
    const { status, error } = this.#get(name).describe();
    if (status === 'failed')
      throw new DuolaneError('network', asString(error, 'the server failed'));
  }

  /** Takes a message that a server inside the host sent on its own initiative. */
  receive(name: string, message: JsonObject): void {
    const transport = this.#inside.get(name);
    if (!transport) throw new DuolaneError('not_found', serverNotFound(name));
    transport.receive(message);
  }

  /** Counts a sampling request of a server. Throws if it exceeds the limit. */
  countSampling(name: string, maxRequests: number): void {
    this.#get(name).sampling.take(maxRequests);
  }

  /** Resolves when every server is connected or has failed. */
  async ready(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.ready()));
  }

  /**
   * The tools of all servers. If two have the same name for the model, as `c` of `a__b` and `b__c`
   * of `a`, both are omitted: a permission for one would cover the other, and providers refuse a
   * request with two.
   */
  tools(): AgentTool[] {
    const byName = new Map<string, AgentTool | undefined>();
    for (const server of this.#servers.values())
      for (const tool of server.tools()) {
        const { name } = tool.spec;
        if (byName.has(name)) this.#reportAmbiguous(server.name, name);
        byName.set(name, byName.has(name) ? undefined : tool);
      }
    return [...byName.values()].filter((tool) => tool !== undefined);
  }

  #reportAmbiguous(server: string, tool: string): void {
    if (this.#ambiguous.has(tool)) return;
    this.#ambiguous.add(tool);
    const text = `two servers have a tool "${tool}", and both are omitted; rename one of the servers`;
    this.#options.events.log(server, 'warning', text);
  }

  /** The servers with all details, for `mcp_status`. */
  describe(): JsonObject[] {
    return [...this.#servers.values()].map((server) => server.describe());
  }

  /** The servers in short form, for `system/init`. */
  list(): JsonObject[] {
    return [...this.#servers.values()].map(({ name, status, dialer }) => ({
      name,
      status,
      source: dialer.source,
    }));
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() =>
    this.#inTurn(() =>
      Promise.all([...this.#servers.values()].map((server) => server.disconnect())),
    ),
  );

  #get(name: string): Server {
    const server = this.#servers.get(name);
    if (!server) throw new DuolaneError('not_found', serverNotFound(name));
    return server;
  }

  async #remove(name: string): Promise<void> {
    await this.#servers.get(name)?.disconnect();
    this.#servers.delete(name);
    this.#inside.delete(name);
    this.#set.delete(name);
  }

  #inHost(name: string, config: JsonObject, manifest?: JsonObject): ServerDialer {
    const { lane, help } = this.#options;
    return {
      transport: 'sdk',
      source: 'sdk',
      config,
      timeoutMs: timeoutOf(config) ?? this.#options.toolTimeoutMs,
      manifest: manifest && readManifest(manifest),
      dial: async (signal) => {
        const { ControlTransport: Transport } = await import('./control-transport.ts');
        const transport = new Transport(lane, name);
        this.#inside.set(name, transport);
        return dialHost(name, transport, help, signal);
      },
    };
  }

  #outside(name: string, config: JsonObject): ServerDialer {
    const { help } = this.#options;
    const transport = asString(config['type'], 'stdio');
    return {
      transport,
      source: 'flag',
      config,
      timeoutMs: timeoutOf(config) ?? this.#options.toolTimeoutMs,
      dial: (signal) => dialConfig(name, config, help, signal),
    };
  }
}

/** The error text of the vendor's CLI for an unknown server; hosts may compare it. */
export const serverNotFound = (name: string): string => `Server not found: ${name}`;

function timeoutOf(config: JsonObject): number | undefined {
  const { timeout } = config;
  // A timer with a longer time would fire immediately.
  return typeof timeout === 'number' && timeout > 0
    ? Math.min(Math.ceil(timeout), 2 ** 31 - 1)
    : undefined;
}

/** Reads an item of `sdkMcpServerManifests`. Undefined: it has no list of tools. */
function readManifest(manifest: JsonObject): ServerDialer['manifest'] {
  const tools = asObject(manifest['toolsListResult'])['tools'];
  if (!Array.isArray(tools)) return undefined;
  const info = asObject(asObject(manifest['initializeResult'])['serverInfo']);
  return { info, tools: asArray(tools).filter(isObject) as Tool[] };
}
