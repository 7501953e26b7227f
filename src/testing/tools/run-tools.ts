import { DuolaneError, type ErrorCode } from '../../errors.ts';
import { dialMessages } from '../../mcp/json-rpc/client/dial-messages.ts';
import { serveMessages } from '../../mcp/json-rpc/server/serve-messages.ts';
import type { CallOptions, ToolCall, ToolEvent, ToolResult, ToolSource } from '../../mcp/types.ts';
import { onAbort } from '../../stream/abort.ts';
import { SIGNAL_TIMER } from '../kernel/virtual-globals.ts';
import type { World } from '../kernel/world.ts';
import type { ToolSimulation } from '../types.ts';
import { type SentMessage, SimulatedLink } from './simulated-link.ts';
import type { PlannedCall, ToolSchedule } from './tool-schedule.ts';

/** How long a call that was canceled has to end in its source. */
const GRACE_MS = 5000;
/** How long after the last call a timer of a tool may still be armed. */
const QUIET_MS = 10_000;
const LOST: readonly ErrorCode[] = ['network', 'peer_exited', 'closed'];

/** What the calls of a schedule gave. */
export interface SimulatedCalls {
  /** The results of the calls that ended well, with the index of the call. */
  readonly results: readonly { readonly call: number; readonly result: ToolResult }[];
  readonly ms: number;
  readonly messages: readonly SentMessage[];
}

/** Runs one schedule of calls, over a connection between two machines. */
export async function runTools(
  world: World,
  schedule: ToolSchedule,
  source: ToolSource,
  options: ToolSimulation,
): Promise<SimulatedCalls> {
  const run = new ToolWorld(world, schedule, source, options);
  await run.toEnd();
  return run;
}

class ToolWorld implements SimulatedCalls {
  readonly results: { readonly call: number; readonly result: ToolResult }[] = [];
  readonly messages: SentMessage[] = [];
  ms = 0;
  readonly #world: World;
  readonly #schedule: ToolSchedule;
  readonly #options: ToolSimulation;
  readonly #source: ToolSource;
  readonly #client;
  readonly #server;
  readonly #running = new Set<ToolCall>();
  #link: SimulatedLink | undefined;
  #connection: Promise<ToolSource & AsyncDisposable>;
  #open = 0;
  #cuts = 0;

  constructor(world: World, schedule: ToolSchedule, source: ToolSource, options: ToolSimulation) {
    this.#world = world;
    this.#schedule = schedule;
    this.#options = options;
    this.#client = world.machine('client');
    this.#server = world.machine('server');
    this.#source = this.#watched(source);
    this.#connection = this.#connect();
  }

  async toEnd(): Promise<void> {
    const world = this.#world;
    const { limitMs = 86_400_000 } = this.#options;
    for (const [index, planned] of this.#schedule.calls.entries()) {
      this.#open++;
      world.after(planned.at, this.#client, 'call', () => {
        this.#call(`call-${index}`, planned).then(
          () => this.#open--,
          (error: unknown) => world.broken('the simulation itself works', String(error)),
        );
      });
    }
    for (const at of this.#schedule.cuts) world.after(at, this.#client, 'cut', () => this.#cut());
    await world.run(limitMs, () => world.violations.length > 0 || this.#open === 0);
    this.ms = world.now;
    if (world.violations.length > 0) return;
    if (this.#open > 0)
      world.broken('every call ends', `${this.#open} did not within ${limitMs} ms`);
    let isClosed = false;
    world.after(0, this.#client, 'close', () => {
      this.#connection
        .then((source) => source[Symbol.asyncDispose]())
        .then(
          () => (isClosed = true),
          (error: unknown) => world.broken('dispose does not reject', String(error)),
        );
    });
    await world.run(world.now + GRACE_MS, () => isClosed);
    if (!isClosed) world.broken('dispose resolves', 'the client is not closed');
    await world.run(world.now + QUIET_MS, () => false);
    for (const { name } of this.#running)
      world.broken('a call ends with its connection', `"${name}" still runs`);
    for (const { where, event } of this.#server.timers)
      if (where !== SIGNAL_TIMER)
        world.broken(
          'a tool leaves no timer',
          `${where} of ${Math.round((event?.at ?? 0) - world.now)} ms; clear it when the signal aborts`,
        );
  }

  async #connect(): Promise<ToolSource & AsyncDisposable> {
    const world = this.#world;
    for (;;) {
      const link = new SimulatedLink(world, [this.#client, this.#server], (sent) =>
        this.messages.push(sent),
      );
      this.#link = link;
      world.after(0, this.#server, 'serve', () => {
        const { done } = serveMessages(this.#source, link.ends[1]);
        done.catch((error: unknown) => world.broken('a server ends well', String(error)));
      });
      try {
        return await dialMessages(link.ends[0]);
      } catch (error) {
        // The connection was lost during its handshake.
        if (!LOST.includes(DuolaneError.from(error).code)) throw error;
      }
    }
  }

  #cut(): void {
    this.#world.count('cut');
    this.#cuts++;
    this.#link?.cut();
    this.#connection = this.#connection.then(() => this.#connect());
  }

  /** The source, and a look whether a call ends in time when its signal aborts. */
  #watched(source: ToolSource): ToolSource {
    const callTool = (call: ToolCall, options: CallOptions = {}): AsyncIterable<ToolEvent> =>
      this.#watch(source, call, options);
    return new Proxy(source, {
      get(target, name) {
        if (name === 'callTool') return callTool;
        const member: unknown = Reflect.get(target, name, target);
        return typeof member === 'function' ? (member.bind(target) as unknown) : member;
      },
    });
  }

  async *#watch(
    source: ToolSource,
    call: ToolCall,
    options: CallOptions,
  ): AsyncGenerator<ToolEvent, void, undefined> {
    const world = this.#world;
    this.#running.add(call);
    const unlisten = onAbort(options.signal, () => {
      world.after(GRACE_MS, world.outside, 'look for the call', () => {
        if (this.#running.has(call))
          world.broken(
            'a call ends when it is canceled',
            `"${call.name}" still runs ${GRACE_MS} ms later`,
          );
      });
    });
    try {
      yield* source.callTool(call, options);
    } finally {
      unlisten();
      this.#running.delete(call);
    }
  }

  async #call(id: string, planned: PlannedCall): Promise<void> {
    const world = this.#world;
    const { call, abortMs, pauseMs, ends } = planned;
    const { name, args = {} } = this.#options.calls[call] ?? { name: '' };
    const controller = new AbortController();
    const reason = new DuolaneError('canceled', 'the simulation aborts the call');
    const abort = (): void => {
      world.count('abort');
      controller.abort(reason);
    };
    if (abortMs !== undefined && abortMs < 0) abort();
    else if (abortMs !== undefined) world.after(abortMs, this.#client, 'abort', abort);
    const stopped = new DuolaneError('canceled', 'the reader throws');
    const cuts = this.#cuts;
    const { signal } = controller;
    let last: ToolEvent | undefined;
    let count = 0;
    try {
      const source = await this.#connection;
      for await (const event of source.callTool({ id, name, args }, { signal })) {
        if (last) world.broken('nothing follows the last event of a call', event.type);
        if (isLast(event)) last = event;
        if (++count >= (ends?.events ?? Infinity)) {
          world.count('reader ends');
          if (ends?.how === 'throw') throw stopped;
          return;
        }
        if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
      if (last?.type === 'result') this.results.push({ call, result: last.result });
      if (!last) world.broken('a call ends with one last event', `"${name}" has none`);
    } catch (error) {
      if (error === stopped || (error === reason && signal.aborted)) return;
      const failure = DuolaneError.from(error);
      if (this.#cuts > cuts && LOST.includes(failure.code)) return;
      world.broken('a call fails for a reason', `"${name}": ${failure.code} ${failure.message}`);
    }
  }
}

const isLast = ({ type }: ToolEvent): boolean =>
  type === 'result' || type === 'input' || type === 'task';
