import { getEventListeners } from 'node:events';
import { DuolaneError } from '../../../src/errors.ts';
import type { Logger } from '../../../src/event/types.ts';
import type { SpawnedProcess } from '../../../src/host/launch/custom-process.ts';
import type { SessionOptions } from '../../../src/host/options/options.ts';
import { query, type Query } from '../../../src/host/query/query.ts';
import { openSession } from '../../../src/host/session/open-session.ts';
import type { Session } from '../../../src/host/types.ts';
import type { UserInput } from '../../../src/host/sdk-types/message-types.ts';
import type { JsonObject } from '../../../src/json.ts';
import { createSdkMcpServer, tool } from '../../../src/mcp/registry/tool.ts';
import { SIGNAL_TIMER } from '../globals.ts';
import { AGENT_TIMER } from '../tasks/replica.ts';
import { pause } from '../tasks/agents.ts';
import type { Machine, World } from '../world.ts';
import { Child } from './child.ts';
import { ScriptedCli } from './cli.ts';
import { HostLedger } from './host-ledger.ts';
import {
  type AppAction,
  type CliAction,
  HOST_BUSY_MS,
  type HostPlan,
  NEVER_MS,
  type ToolPlan,
} from './plan.ts';

/** When the app closes what is still open, and how long everything then has to end. */
const CLOSE_MS = HOST_BUSY_MS + 90_000;
const PATIENCE_MS = 60_000;
const QUIET_MS = 10_000;

const own = (): Error => new Error('the app leaves its loop');
const silent = (): void => {};
const thrower = (): never => {
  throw new Error('as planned');
};
const loggerOf = (run: () => void): Logger => ({ debug: run, info: run, warn: run, error: run });

/** Runs one schedule of a host with a session or a query, and a scripted CLI. */
export async function runHost(world: World, plan: HostPlan): Promise<void> {
  await new HostWorld(world, plan).run();
}

class HostWorld {
  readonly #world: World;
  readonly #plan: HostPlan;
  readonly #host: Machine;
  readonly #ledger: HostLedger;
  readonly #abort = new AbortController();
  readonly #controllers = [this.#abort];
  readonly #open = new Map<string, number>();
  readonly #seen: string[] = [];
  #child: Child | undefined;
  #session: Promise<Session> | undefined;
  #query: Query | undefined;
  /** When the app closed the session, or its input by force. */
  #closedAt = Infinity;
  #failure: unknown;
  #readToEnd = false;
  /** It was closed before its end, so that responses were not needed. */
  #closedEarly = false;
  #sent = 0;
  #nextSend: (() => void) | undefined;

  constructor(world: World, plan: HostPlan) {
    this.#world = world;
    this.#plan = plan;
    this.#host = world.machine('host');
    this.#ledger = new HostLedger(world);
  }

  async run(): Promise<void> {
    const world = this.#world;
    const plan = this.#plan;
    world.after(0, this.#host, 'open', () => this.#start());
    for (const action of plan.actions)
      world.after(action.at + 0.5, this.#host, action.do, () => {
        world.count(`app ${action.do}`);
        this.#act(action);
      });
    for (const fault of plan.faults)
      if ('at' in fault)
        world.after(fault.at, world.outside, fault.do, () => {
          const child = this.#child;
          if (!child || child.hasExited) return;
          world.count(`cli ${fault.do}`);
          if (fault.do === 'die') child.exit(fault.code, fault.code === null ? 'SIGKILL' : null);
          else if (fault.do === 'stop') world.stop(child.machine, fault.ms);
          else child.deafen();
        });
    world.after(HOST_BUSY_MS, this.#host, 'end input', () => this.#endInput(false));
    await world.run(CLOSE_MS, () => world.violations.length > 0);
    if (world.violations.length > 0) return;
    this.#closedEarly = this.#isClosed();
    if (isQuiet(plan) && this.#open.size > 0)
      world.broken('without a fault, everything ends', [...this.#open.keys()].join(', '));
    world.after(0, this.#host, 'close', () => this.#dispose(2));
    await world.run(world.now + PATIENCE_MS, () => this.#open.size === 0);
    for (const [what, count] of this.#open)
      world.broken('every promise settles', `${count} of ${what}`);
    await world.run(world.now + QUIET_MS, () => false);
    this.#check();
  }

  // ——— the app

  #options(): SessionOptions {
    const plan = this.#plan;
    const server = createSdkMcpServer({
      name: 'app',
      tools: [
        tool('run', 'runs', { type: 'object' } as const, (args, { signal }) =>
          this.#runTool(args as unknown as ToolPlan & { readonly n: number }, signal),
        ),
      ],
    });
    return {
      ...plan.limits,
      ...(plan.kind === 'session' && plan.reader.lane === 'frames' && { lanes: 'both' as const }),
      mcpServers: { app: server },
      logger: loggerOf(plan.throwingLogger ? thrower : silent),
      canUseTool: async (_name, input, { signal }) => {
        const run = this.#ledger.begins(undefined, signal);
        await pause(Number(input['ms']), signal).finally(() => this.#ledger.active.delete(run));
        return { behavior: 'allow', updatedInput: input };
      },
      onFrame: (frame) => {
        this.#ledger.tap(frame);
        if (plan.throwingTap) thrower();
      },
      spawnClaudeCodeProcess: () => this.#spawn(),
    };
  }

  async #runTool({ n, act, ms }: ToolPlan & { n: number }, signal: AbortSignal): Promise<string> {
    const run = this.#ledger.toolBegins(n, signal);
    try {
      if (act === 'hang') await pause(NEVER_MS, signal);
      await pause(ms, act === 'deaf' ? undefined : signal);
      if (act === 'throw') throw new Error('as planned');
      return `result ${n}`;
    } finally {
      this.#ledger.active.delete(run);
    }
  }

  #spawn(): SpawnedProcess {
    const child = new Child(this.#world, this.#host);
    this.#child = child;
    new ScriptedCli(this.#world, this.#plan, child, this.#ledger);
    this.#world.stop(child.machine, this.#plan.cli.startMs);
    return child;
  }

  #start(): void {
    const options = this.#options();
    if (this.#plan.kind === 'query') {
      const abortController = this.#abort;
      const run = query({ prompt: this.#prompts(), options: { ...options, abortController } });
      this.#query = run;
      if (this.#plan.reader.lane !== 'none')
        this.#track('query', this.#readQuery(run), (error) => void (this.#failure = error));
      return;
    }
    const opening = openSession(options);
    this.#session = opening;
    this.#track('openSession', opening);
    const done = opening.then((session) => session.done);
    this.#track('done', done, (error) => void (this.#failure = error));
    if (this.#plan.reader.lane !== 'none')
      this.#track(
        'reader',
        opening.then((session) => this.#readSession(session)),
      );
  }

  async *#prompts(): AsyncGenerator<UserInput> {
    const sends = this.#plan.actions.filter((action) => action.do === 'send').length;
    for (let sent = 0; sent < sends; sent++) {
      while (this.#sent <= sent) await new Promise<void>((resolve) => (this.#nextSend = resolve));
      yield { type: 'user', message: { role: 'user', content: 'hello' } };
    }
  }

  #act(action: AppAction): void {
    switch (action.do) {
      case 'send':
        this.#sent++;
        this.#nextSend?.();
        return this.#with('send', (session) => session.send('hello'));
      case 'interrupt':
        if (this.#query) return this.#track('interrupt', this.#query.interrupt());
        return this.#with('interrupt', (session) => session.interrupt());
      case 'request': {
        const signal = this.#signal(action.abortMs);
        return this.#with('request', (session) => session.request('set_model', {}, { signal }));
      }
      case 'ready': {
        const signal = this.#signal(action.abortMs);
        return this.#with('ready', (session) => session.ready({ signal }));
      }
      case 'endInput':
        return this.#endInput(action.force);
      case 'abort':
        this.#closedAt = Math.min(this.#closedAt, this.#world.now);
        if (this.#query) return this.#abort.abort();
        return this.#dispose(1);
      default:
        return this.#dispose(action.times);
    }
  }

  #with(what: string, run: (session: Session) => Promise<unknown>): void {
    if (this.#session) this.#track(what, this.#session.then(run));
  }

  #signal(abortMs: number | undefined): AbortSignal {
    const controller = new AbortController();
    this.#controllers.push(controller);
    if (abortMs !== undefined)
      this.#world.after(abortMs, this.#host, 'abort', () => controller.abort());
    return controller.signal;
  }

  #endInput(force: boolean): void {
    if (force && this.#session) this.#closedAt = Math.min(this.#closedAt, this.#world.now);
    this.#with('endInput', async (session) => session.endInput({ force }));
  }

  #dispose(times: number): void {
    this.#closedAt = Math.min(this.#closedAt, this.#world.now);
    for (let each = 0; each < times; each++) {
      if (this.#query) this.#track('dispose', this.#query[Symbol.asyncDispose](), this.#refused);
      const closing = this.#session?.then((session) => {
        this.#world.after(0, this.#host, 'closing', () => this.#ledger.checkStopped());
        return session[Symbol.asyncDispose]();
      });
      if (closing) this.#track('dispose', closing, this.#refused);
    }
  }

  readonly #refused = (error: unknown): void =>
    this.#world.broken('dispose does not reject', String((error as Error).stack));

  #track(
    what: string,
    promise: Promise<unknown>,
    onError: (error: unknown) => void = silent,
  ): void {
    this.#open.set(what, (this.#open.get(what) ?? 0) + 1);
    const over = (): void => {
      const rest = (this.#open.get(what) ?? 0) - 1;
      if (rest > 0) this.#open.set(what, rest);
      else this.#open.delete(what);
    };
    promise.then(over, (error: unknown) => {
      over();
      onError(error);
      const isTyped = error instanceof DuolaneError && error.code !== 'internal';
      if (!isTyped && (error as Error).name !== 'AbortError')
        this.#world.broken('every failure is typed', `${what}: ${(error as Error).stack}`);
    });
  }

  // ——— readers

  async #readSession(session: Session): Promise<void> {
    const { lane } = this.#plan.reader;
    if (lane === 'response') {
      for (let isOver = false; !isOver;) {
        const before = this.#seen.length;
        await this.#loop(session.response());
        isOver = this.#seen.length === before;
      }
      return;
    }
    const items = (): AsyncIterable<JsonObject> =>
      lane === 'frames' ? messagesOf(session) : session.messages();
    if (this.#plan.reader.leaveAfter !== undefined)
      await this.#loop(items(), this.#plan.reader.leaveAfter);
    await this.#loop(items());
    this.#readToEnd = true;
  }

  async #readQuery(run: Query): Promise<void> {
    await this.#loop(run as AsyncIterable<JsonObject>, this.#plan.reader.leaveAfter);
    if (this.#plan.reader.leaveAfter === undefined) this.#readToEnd = true;
    else this.#closedAt = Math.min(this.#closedAt, this.#world.now);
  }

  async #loop(items: AsyncIterable<JsonObject>, leaveAfter = Infinity): Promise<void> {
    const { pauseMs, how } = this.#plan.reader;
    let count = 0;
    try {
      for await (const { uuid, host } of items) {
        if (typeof uuid === 'string' && host !== true && uuid.startsWith('line-'))
          this.#seen.push(uuid);
        if (pauseMs > 0) await pause(pauseMs, undefined);
        if (++count <= leaveAfter) continue;
        if (this.#query) this.#closedAt = Math.min(this.#closedAt, this.#world.now);
        if (how === 'break') break;
        throw own();
      }
    } catch (error) {
      if ((error as Error).message !== own().message) throw error;
    }
  }

  // ——— laws

  #isClosed(): boolean {
    const { kind, reader, throwingTap } = this.#plan;
    // A tap that throws is not called again, and so sees no response.
    if (throwingTap) return true;
    // The error of a query without a reader is not seen.
    if (this.#closedAt < Infinity || (kind === 'query' && reader.lane === 'none')) return true;
    const code = this.#failure instanceof DuolaneError ? this.#failure.code : undefined;
    return code === 'timeout' || this.#ledger.active.size > 0;
  }

  #check(): void {
    const world = this.#world;
    for (const { where, event } of this.#host.timers)
      if (where !== AGENT_TIMER && where !== SIGNAL_TIMER)
        world.broken(
          'no timer is left after dispose',
          `${where} of ${Math.round((event?.at ?? 0) - world.now)} ms`,
        );
    let listeners = 0;
    for (const { signal } of this.#controllers)
      listeners += getEventListeners(signal, 'abort').length;
    if (listeners > 0) world.broken('no listener is left after dispose', `${listeners}`);
    if (this.#child && !this.#child.hasExited) world.broken('no process is left', 'cli');
    this.#ledger.check(this.#closedEarly, this.#takenUntil());
    this.#checkSeen();
    if (!isQuiet(this.#plan)) return;
    this.#ledger.checkArrived();
    if (this.#failure !== undefined)
      world.broken('a session fails for a reason', String((this.#failure as Error).stack));
  }

  /** A CLI that runs reads its input within a second, unless it is stopped. */
  #takenUntil(): number {
    const { faults, throwingTap } = this.#plan;
    if (throwingTap || faults.some(({ do: what }) => what === 'stop')) return 0;
    return Math.min(this.#child?.exitedAt ?? 0, this.#closedAt) - 1000;
  }

  /** A reader sees the messages in their order, without a gap; `response` skips some. */
  #checkSeen(): void {
    const { lines } = this.#ledger;
    const skips = this.#plan.reader.lane === 'response' && this.#plan.kind === 'session';
    let at = 0;
    for (const [index, uuid] of this.#seen.entries()) {
      if (skips) at = lines.indexOf(uuid, at);
      if (at < 0 || lines[at] !== uuid)
        return this.#world.broken('a reader sees each message once', `${uuid} at ${index}`);
      at++;
    }
    if (this.#readToEnd && isQuiet(this.#plan) && !skips && this.#seen.length < lines.length)
      this.#world.broken('a reader sees every message', `${this.#seen.length} of ${lines.length}`);
  }
}

async function* messagesOf(session: Session): AsyncGenerator<JsonObject> {
  for await (const { lane, direction, data } of session.frames())
    if (lane === 'message' && direction === 'in') yield data as JsonObject;
}

const LOUD = new Set(['interrupt', 'abort', 'dispose']);

/** Whether nothing goes wrong, and the app waits for the end. */
const isQuiet = ({ kind, reader, faults, cli, actions, turns }: HostPlan): boolean =>
  faults.length === 0 &&
  // A query ends when its reader leaves.
  (kind === 'session' || reader.leaveAfter === undefined) &&
  cli.stays === 'no' &&
  !cli.ignoresInterrupt &&
  !cli.failsTurns &&
  !actions.some((it) => LOUD.has(it.do) || (it.do === 'endInput' && it.force)) &&
  !turns.flat().some(hangs);

const hangs = (action: CliAction): boolean =>
  action.do === 'call'
    ? action.tools.some(({ act }) => act === 'hang')
    : action.do === 'permit' && action.ms === NEVER_MS;
