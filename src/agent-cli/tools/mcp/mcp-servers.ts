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
  /** `MCP_TOOL_TIMEOUT`: the limit of a call where a server has none of its own. */
  readonly toolTimeoutMs?: number | undefined;
}

/** All MCP servers of a session: those inside the host and those that we dial. */
export class McpServers implements AsyncDisposable {
  readonly #options: ServersOptions;
  readonly #servers = new Map<string, Server>();
  readonly #inside = new Map<string, ControlTransport>();
  /** Those that came by `replace`. */
  readonly #set = new Set<string>();
  /** Changes of the list, one after the other: each looks at what the one before has left. */
  #changing: Promise<unknown> = Promise.resolve();

  constructor(options: ServersOptions) {
    this.#options = options;
  }

  /** Starts connecting; all servers at once, nobody waits here. */
  add(name: string, config: JsonObject, manifest?: JsonObject): void {
    const known = this.#servers.get(name);
    // It is replaced either way; how it went is for the log of the host.
    known?.disconnect().catch((reason: unknown) => {
      const why = DuolaneError.from(reason).message;
      this.#options.events.log(name, 'warning', `the server could not be disconnected: ${why}`);
    });
    const road =
      config['type'] === 'sdk' ? this.#inHost(name, config, manifest) : this.#outside(name, config);
    const server = new Server(name, road, this.#options.events);
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

  /** `mcp_set_servers`: the servers inside the host are replaced, dialled ones too if they were set so. */
  async replace(servers: JsonObject): Promise<JsonObject> {
    const errors: Record<string, string> = {};
    const { added, removed } = await this.#inTurn(() => this.#change(servers, errors));
    // A server inside the host may answer only after this request: it is not waited for.
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
      .filter(({ name, road }) => !stays(name) && (road.transport === 'sdk' || this.#set.has(name)))
      .map(({ name }) => name);
    await Promise.all(removed.map((name) => this.#remove(name)));
    const added: string[] = [];
    for (const [name, config] of Object.entries(servers)) {
      if (!isObject(config)) errors[name] = 'the configuration must be an object';
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
    // The failure is that of the caller; the next change begins either way.
    this.#changing = changed.catch(() => {});
    return changed;
  }

  async toggle(name: string, enabled: boolean): Promise<void> {
    await this.#inTurn(async () => {
      const server = this.#get(name);
      await server.disconnect();
      if (enabled) this.add(name, server.road.config);
    });
    await this.#servers.get(name)?.ready();
  }

  async reconnect(name: string): Promise<void> {
    await this.toggle(this.#get(name).name, true);
    const { status, error } = this.#get(name).describe();
    if (status === 'failed')
      throw new DuolaneError('network', asString(error, 'the server failed'));
  }

  /** A message that a server inside the host sent on its own. */
  receive(name: string, message: JsonObject): void {
    const transport = this.#inside.get(name);
    if (!transport) throw new DuolaneError('not_found', `Server not found: ${name}`);
    transport.receive(message);
  }

  /** Resolves when every server is connected or has failed. */
  async ready(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.ready()));
  }

  tools(): AgentTool[] {
    return [...this.#servers.values()].flatMap((server) => server.tools());
  }

  /** In full, for `mcp_status`. */
  describe(): JsonObject[] {
    return [...this.#servers.values()].map((server) => server.describe());
  }

  /** In short, for `system/init`. */
  list(): JsonObject[] {
    return [...this.#servers.values()].map(({ name, status, road }) => ({
      name,
      status,
      source: road.source,
    }));
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    await this.#inTurn(() =>
      Promise.all([...this.#servers.values()].map((server) => server.disconnect())),
    );
  }

  #get(name: string): Server {
    const server = this.#servers.get(name);
    if (!server) throw new DuolaneError('not_found', `Server not found: ${name}`);
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

function timeoutOf(config: JsonObject): number | undefined {
  const { timeout } = config;
  // A timer with a longer time runs out at once.
  return typeof timeout === 'number' && timeout > 0
    ? Math.min(Math.ceil(timeout), 2 ** 31 - 1)
    : undefined;
}

/** What a host lists in `sdkMcpServerManifests`: only of use with the tools in it. */
function readManifest(manifest: JsonObject): ServerDialer['manifest'] {
  const tools = asObject(manifest['toolsListResult'])['tools'];
  if (!Array.isArray(tools)) return undefined;
  const info = asObject(asObject(manifest['initializeResult'])['serverInfo']);
  return { info, tools: asArray(tools).filter(isObject) as Tool[] };
}
