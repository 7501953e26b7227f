import { getEventListeners } from 'node:events';
import { DuolaneError } from '../../../src/errors.ts';
import { SIGNAL_TIMER } from '../globals.ts';
import { Network } from '../network/network.ts';
import { AGENT_TIMER } from '../tasks/replica.ts';
import type { Machine, World } from '../world.ts';
import { McpClientRun, type McpSurroundings } from './client-run.ts';
import { McpLedger } from './mcp-ledger.ts';
import { MCP_BUSY_MS, type McpPlan, type ProcessFault } from './plan.ts';
import {
  CAN_BE_ASKED,
  type DialledSource,
  dialUntil,
  HttpToolServer,
  ToolServers,
} from './tool-servers.ts';

const SERVER = 'http://localhost:1001';
const BRIDGE = 'http://localhost:1002';

/** When clients close what is still open, and how long everything then has to end. */
const CLOSE_MS = MCP_BUSY_MS + 120_000;
const PATIENCE_MS = 120_000;
const QUIET_MS = 10_000;
/** How long a change of the list may take to a client that listens. */
const CHANGE_MS = 10_000;

/** Runs one schedule of MCP: a server, perhaps a bridge, and clients. */
export async function runMcp(world: World, plan: McpPlan): Promise<void> {
  await new McpWorld(world, plan).run();
}

class McpWorld {
  readonly #world: World;
  readonly #plan: McpPlan;
  readonly #network: Network;
  readonly #ledger: McpLedger;
  readonly #servers: ToolServers;
  readonly #around: McpSurroundings;
  readonly #clients: readonly McpClientRun[];
  readonly #machines: readonly Machine[];
  readonly #working = new Map<string, number>();
  /** Machines of this run that end by `dispose`. */
  readonly #ending: Machine[] = [];
  #server: HttpToolServer | undefined;
  #bridge: HttpToolServer | undefined;
  #bridged: DialledSource | undefined;
  #isClosing = false;

  constructor(world: World, plan: McpPlan) {
    this.#world = world;
    this.#plan = plan;
    this.#network = new Network(world, plan.netFaults);
    this.#ledger = new McpLedger(world);
    this.#servers = new ToolServers(world, this.#network, this.#ledger);
    this.#around = {
      world,
      ledger: this.#ledger,
      isQuiet: plan.faults.length === 0 && plan.netFaults.length === 0,
      isShared: plan.bridge === 'http' && plan.clients.length > 1,
      hasPipe: plan.upstream === 'stdio' || plan.bridge === 'stdio',
      clientOf: (n) => plan.calls.find((call) => call.n === n)?.client,
      controllers: [],
      track: (what, work) => this.#track(what, work),
    };
    this.#machines = plan.clients.map((_, index) => world.machine(`client${index}`));
    this.#clients = plan.clients.map(
      (client, index) =>
        new McpClientRun(
          this.#around,
          client,
          plan.calls.filter((call) => call.client === index),
        ),
    );
    this.#network.route(SERVER, () => this.#server);
    this.#network.route(BRIDGE, () => this.#bridge);
  }

  async run(): Promise<void> {
    const world = this.#world;
    const plan = this.#plan;
    if (plan.upstream === 'http') this.#startServer();
    if (plan.bridge === 'http') this.#startBridge();
    for (const [index, client] of this.#clients.entries()) this.#startClient(index, client);
    for (const call of plan.calls) {
      const machine = this.#machines[call.client] as Machine;
      const client = this.#clients[call.client];
      world.after(1 + call.at, machine, `call ${call.n}`, () => {
        if (client) this.#track(`call ${call.n}`, client.call(call));
      });
    }
    for (const at of plan.changes) this.#change(at);
    for (const fault of plan.faults)
      world.after(fault.at, world.outside, fault.do, () => this.#happen(fault));
    await world.run(CLOSE_MS, () => world.violations.length > 0);
    if (world.violations.length > 0) return;
    await this.#close();
    this.#check();
  }

  async #close(): Promise<void> {
    const world = this.#world;
    this.#isClosing = true;
    for (const [index, client] of this.#clients.entries())
      world.after(0, this.#machines[index] as Machine, 'close', () => client.close(2));
    await world.run(world.now + PATIENCE_MS, () => this.#working.size === 0);
    for (const [what, count] of this.#working)
      world.broken('every promise settles', `${count} of ${what}`);
    const bridge = this.#bridge;
    if (bridge)
      world.after(0, bridge.machine, 'close bridge', () =>
        this.#track(
          'dispose of the bridge',
          Promise.resolve(bridge.handler[Symbol.asyncDispose]()).then(() =>
            this.#bridged?.[Symbol.asyncDispose](),
          ),
        ),
      );
    await world.run(world.now + PATIENCE_MS, () => this.#working.size === 0);
    // Sessions whose end was lost are closed when they were idle for long enough.
    await world.run(world.now + this.#plan.idleMs + 40_000, () => false);
    const server = this.#server;
    if (server && server.handler.sessions > 0)
      world.broken('every session ends', `${server.handler.sessions} of the server`);
    if (server)
      world.after(0, server.machine, 'close server', () =>
        this.#track(
          'dispose of the server',
          Promise.resolve(server.handler[Symbol.asyncDispose]()),
        ),
      );
    await world.run(world.now + PATIENCE_MS, () => this.#working.size === 0);
    for (const [what, count] of this.#working)
      world.broken('every promise settles', `${count} of ${what}`);
    await world.run(world.now + QUIET_MS, () => false);
  }

  // ——— machines

  #startServer(): void {
    const machine = this.#world.machine('server');
    this.#world.after(0, machine, 'start', () => {
      const tools = this.#servers.toolsOn(machine);
      this.#server = new HttpToolServer(this.#world, machine, tools, this.#plan.idleMs);
    });
  }

  #startBridge(): void {
    const machine = this.#world.machine('bridge');
    this.#ending.push(machine);
    this.#world.after(0.2, machine, 'start', () => {
      const dialled = dialUntil(
        () => this.#dialServer(),
        () => this.#isClosing,
        (error) => this.#checkTyped('the dial of the bridge', error),
      );
      this.#track(
        'bridge',
        dialled.then((source) => {
          if (!source) return;
          this.#bridged = source;
          this.#bridge = new HttpToolServer(this.#world, machine, source, this.#plan.idleMs);
        }),
      );
    });
  }

  /** Dials the server for a bridge, on its machine. */
  #dialServer(): Promise<DialledSource> {
    const { upstream, bridgeProtocol: protocol } = this.#plan;
    const options = { protocol, capabilities: CAN_BE_ASKED };
    return upstream === 'http'
      ? this.#servers.dialUrl(`${SERVER}/mcp`, options)
      : this.#servers.dialChild(this.#servers.spawnServer(), options);
  }

  #startClient(index: number, client: McpClientRun): void {
    const world = this.#world;
    const machine = this.#machines[index] as Machine;
    const { bridge, upstream } = this.#plan;
    const dial = (): Promise<DialledSource> => {
      const { options } = client;
      if (bridge === 'http') return this.#servers.dialUrl(`${BRIDGE}/mcp`, options);
      if (bridge === 'stdio') {
        const child = this.#servers.spawnBridge(() => this.#dialServer());
        return this.#servers.dialChild(child, options);
      }
      return upstream === 'http'
        ? this.#servers.dialUrl(`${SERVER}/mcp`, options)
        : this.#servers.dialChild(this.#servers.spawnServer(), options);
    };
    // A client of a bridge without faults finds it ready.
    const waitMs = bridge === 'http' ? 500 : 0.5;
    world.after(waitMs, machine, 'dial', () => client.dial(dial));
    const { closes } = this.#plan.clients[index] ?? {};
    if (closes) world.after(waitMs + closes.at, machine, 'close', () => client.close(closes.times));
  }

  #change(at: number): void {
    const world = this.#world;
    world.after(at, world.outside, 'change', () => {
      this.#servers.change();
      if (!this.#around.isQuiet) return;
      const before = this.#clients.map(({ seenChanges }) => seenChanges);
      world.after(CHANGE_MS, world.outside, 'expect a change', () => {
        for (const [index, client] of this.#clients.entries()) {
          const plan = this.#plan.clients[index];
          // The connection takes its time, and one that is closed sees nothing.
          if (!plan?.listens || plan.closes || at < 8000) continue;
          if (client.seenChanges === before[index])
            world.broken('a listener sees a change', `client ${index}`);
        }
      });
    });
  }

  #happen(fault: ProcessFault): void {
    const world = this.#world;
    world.count(`mcp ${fault.do}`);
    const child = this.#servers.children.find(({ hasExited }) => !hasExited);
    const server = this.#server;
    switch (fault.do) {
      case 'kill':
        if (child) child.exit(null, 'SIGKILL');
        else if (server) {
          this.#server = undefined;
          world.kill(server.machine);
          this.#servers.lost(server.machine);
          world.after(fault.againMs, world.outside, 'restart', () => this.#startServer());
        }
        return;
      case 'stop': {
        const machine = child?.machine ?? server?.machine;
        if (machine) world.stop(machine, fault.ms);
        return;
      }
      case 'deafen':
        return child?.deafen();
      case 'noise':
        return child?.say('DEBUG: not JSON\n');
      default:
        child?.say('{"jsonrpc":"2.0","id":');
        child?.exit(null, 'SIGSEGV');
    }
  }

  // ——— what must settle

  #track(what: string, work: Promise<unknown>): void {
    this.#working.set(what, (this.#working.get(what) ?? 0) + 1);
    const end = (): void => {
      const rest = (this.#working.get(what) ?? 0) - 1;
      if (rest > 0) this.#working.set(what, rest);
      else this.#working.delete(what);
    };
    work.then(end, (error: unknown) => {
      end();
      this.#world.broken('nothing else rejects', `${what}: ${(error as Error).stack}`);
    });
  }

  #checkTyped(what: string, error: unknown): void {
    if (!(error instanceof DuolaneError) || error.code === 'internal')
      this.#world.broken('every failure is typed', `${what}: ${(error as Error).stack}`);
  }

  #check(): void {
    const world = this.#world;
    const server = this.#server;
    const left = [...this.#machines, ...this.#ending, ...(server ? [server.machine] : [])];
    for (const machine of left)
      for (const { where, event } of machine.timers)
        if (where !== AGENT_TIMER && where !== SIGNAL_TIMER)
          world.broken(
            'no timer is left',
            `${where} of ${Math.round((event?.at ?? 0) - world.now)} ms on ${machine.name}`,
          );
    for (const { signal } of this.#around.controllers)
      if (getEventListeners(signal, 'abort').length > 0)
        world.broken('no listener is left of a client', 'abort');
    for (const child of this.#servers.children)
      if (!child.hasExited) world.broken('no process is left', child.machine.name);
    this.#ledger.checkStopped();
    this.#network.check();
  }
}
