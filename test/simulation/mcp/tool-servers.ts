import { Readable, Writable } from 'node:stream';
import { customProcessTransport } from '../../../src/host/launch/custom-process.ts';
import { dialHttp } from '../../../src/mcp/json-rpc/http/client/dial-http.ts';
import { type McpHandler, mcpHandler } from '../../../src/mcp/json-rpc/http/server/mcp-handler.ts';
import { dialTransport, offerStdio } from '../../../src/mcp/json-rpc/stdio.ts';
import type { DialMessagesOptions, ToolRegistry, ToolSource } from '../../../src/mcp/types.ts';
import { DuolaneError } from '../../../src/errors.ts';
import { Child } from '../host/child.ts';
import type { Endpoint, Network } from '../network/network.ts';
import { pause } from '../tasks/agents.ts';
import type { Machine, World } from '../world.ts';
import type { McpLedger } from './mcp-ledger.ts';
import { changeTools, scriptedTools } from './scripted-tools.ts';

export type DialledSource = ToolSource & AsyncDisposable;

/** What a bridge passes on: its own clients answer. */
export const CAN_BE_ASKED = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };

const LAUNCH = { command: 'simulated', args: [], env: {} };

/** An endpoint for MCP over HTTP. */
export class HttpToolServer implements Endpoint {
  readonly machine: Machine;
  readonly handler: McpHandler;

  constructor(world: World, machine: Machine, source: ToolSource, idleMs: number) {
    this.machine = machine;
    this.handler = mcpHandler(source, {
      idleMs,
      onError: (error) => {
        if (DuolaneError.from(error).code === 'internal')
          world.broken('no failure is internal', String((error as Error).stack));
      },
    });
  }

  handle(request: Request): Promise<Response> {
    return this.handler.handle(request);
  }
}

/** Connects streams to the pipes of a child. What arrives waits for the first reader. */
function pipesOf(child: Child): { readonly input: Readable; readonly output: Writable } {
  const input = new Readable({ read() {} });
  child.onInput = (chunk) => input.push(chunk);
  child.onInputEnd = () => input.push(null);
  const output = new Writable({
    write(chunk: Buffer, _, done) {
      child.say(chunk.toString());
      done();
    },
  });
  return { input, output };
}

/** The servers of one run, and how to reach them. */
export class ToolServers {
  readonly #world: World;
  readonly #network: Network;
  readonly #ledger: McpLedger;
  readonly #registries = new Map<Machine, ToolRegistry>();
  /** The processes that were started, of servers and bridges. */
  readonly children: Child[] = [];
  #changes = 0;

  constructor(world: World, network: Network, ledger: McpLedger) {
    this.#world = world;
    this.#network = network;
    this.#ledger = ledger;
  }

  /** The tools on a machine. */
  toolsOn(machine: Machine): ToolRegistry {
    const registry = scriptedTools(this.#world, this.#ledger);
    for (let nth = 1; nth <= this.#changes; nth++) changeTools(registry, nth);
    this.#registries.set(machine, registry);
    return registry;
  }

  /** Changes the list of tools on every machine. */
  change(): void {
    const nth = ++this.#changes;
    for (const [machine, registry] of this.#registries)
      this.#world.after(0, machine, 'tools change', () => changeTools(registry, nth));
  }

  /** Starts a server with pipes, for the machine that calls this. */
  spawnServer(): Child {
    const child = this.#spawn('server');
    this.#world.after(0, child.machine, 'start', () => {
      const pipes = pipesOf(child);
      const served = offerStdio(this.toolsOn(child.machine), pipes);
      served.done.then(() => child.exit(0)).catch(this.#failed);
    });
    return child;
  }

  /** Starts a bridge with pipes, which dials with `dial` on its own machine. */
  spawnBridge(dial: () => Promise<DialledSource>): Child {
    const child = this.#spawn('bridge');
    this.#world.after(0, child.machine, 'start', () => {
      const pipes = pipesOf(child);
      const run = async (): Promise<void> => {
        await using source = await dial();
        await offerStdio(source, pipes).done;
      };
      run().then(
        () => child.exit(0),
        (error: unknown) => {
          if (!(error instanceof DuolaneError)) this.#failed(error);
          child.exit(1);
        },
      );
    });
    return child;
  }

  #spawn(name: string): Child {
    const { current } = this.#world;
    const child = new Child(this.#world, current, `${name}${this.children.length}`);
    this.children.push(child);
    child.onExit = () => this.lost(child.machine);
    return child;
  }

  /** A machine has ended: its connections break, and its children get the end of their input. */
  lost(machine: Machine): void {
    this.#ledger.forget(machine);
    this.#network.lose(machine);
    for (const child of this.children) child.lose(machine);
  }

  readonly #failed = (error: unknown): void =>
    this.#world.broken('a server ends by itself', String((error as Error).stack));

  dialChild(child: Child, options: DialMessagesOptions): Promise<DialledSource> {
    return dialTransport(
      customProcessTransport(() => child, LAUNCH, { graceMs: 500, killMs: 500 }),
      options,
    );
  }

  dialUrl(url: string, options: DialMessagesOptions): Promise<DialledSource> {
    return dialHttp({ url, fetch: this.#network.fetch as typeof fetch, ...options });
  }
}

/** Dials until it succeeds, `isOver` returns true, or it has failed very often. */
export async function dialUntil(
  dial: () => Promise<DialledSource>,
  isOver: () => boolean,
  onError: (error: unknown) => void,
): Promise<DialledSource | undefined> {
  for (let tries = 0; tries < 50 && !isOver(); tries++)
    try {
      return await dial();
    } catch (error) {
      onError(error);
      await pause(1000, undefined);
    }
  return undefined;
}
