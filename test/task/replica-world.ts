import { setTimeout as sleep } from 'node:timers/promises';
import { DuolaneError } from '../../src/errors.ts';
import { advance } from '../../src/event/index.ts';
import type { Agent, AgentEvent, Entry, Logger, Snapshot, Turn } from '../../src/event/types.ts';
import { createRunner, type Runner, type TaskLog } from '../../src/task/index.ts';
import { openLog, type Store } from '../../src/task/store/index.ts';
import type { Claim, LogOptions, RunnerOptions } from '../../src/task/index.ts';
import { type StoreMethods, storeFromCalls } from '../../src/task/store/store.ts';

/** What can go wrong between a replica and its database. */
export class Faults {
  /** The process is gone: nothing of it is done any more. */
  dead = false;
  /** The process is stopped (SIGSTOP): nothing is done until it goes on. */
  paused: Promise<void> | undefined;
  /** Each call takes a turn of the event loop, as with any real database. */
  slow = false;
  /** Whether this answer is lost after the work was done. */
  losesAnswer: (method: keyof StoreMethods) => boolean = () => false;
  /** Whether this call fails before anything is done. */
  failsBefore: (method: keyof StoreMethods, args: readonly unknown[]) => boolean | DuolaneError =
    () => false;
  readonly calls: Record<string, number> = {};

  pause(): () => void {
    let resume = (): void => {};
    this.paused = new Promise((resolve) => (resume = resolve));
    return () => {
      this.paused = undefined;
      resume();
    };
  }

  async gate(): Promise<void> {
    if (this.slow) await new Promise((resolve) => setImmediate(resolve));
    await this.paused;
    if (this.dead) await new Promise(() => {});
  }
}

function faulty(store: Store, faults: Faults, notify: boolean): Store {
  const calls = storeFromCalls(async (method, args) => {
    faults.calls[method] = (faults.calls[method] ?? 0) + 1;
    await faults.gate();
    const failure = faults.failsBefore(method, args);
    if (failure) throw failure === true ? new DuolaneError('network', 'not reached') : failure;
    const result: unknown = await (store[method] as (...args: unknown[]) => Promise<unknown>)(
      ...args,
    );
    await faults.gate();
    if (faults.losesAnswer(method)) throw new DuolaneError('network', 'the answer was lost');
    return result;
  });
  return {
    ...calls,
    announcesAll: notify && store.announcesAll,
    onCommit: (listener) =>
      notify
        ? store.onCommit((commit) => {
            if (!faults.dead && !faults.paused) listener(commit);
          })
        : () => {},
    async [Symbol.asyncDispose]() {},
  };
}

/** Faults are what these tests are about; they would fill the output. */
export const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };

export interface ReplicaOptions extends LogOptions {
  readonly notify?: boolean;
}

/** One process of several that share a database. */
export class Replica {
  readonly log: TaskLog;
  readonly faults: Faults = new Faults();
  readonly #runners: Runner[] = [];

  constructor(store: Store, { notify = true, ...options }: ReplicaOptions) {
    this.log = openLog(faulty(store, this.faults, notify), {
      heartbeatMs: 200,
      leaseMs: 2000,
      pollMs: 30,
      logger: SILENT,
      ...options,
    });
  }

  runner(agents: Record<string, Agent>, options: Partial<RunnerOptions> = {}): Runner {
    const runner = createRunner({
      log: this.log,
      agents,
      graceMs: 50,
      logger: SILENT,
      ...options,
    });
    this.#runners.push(runner);
    return runner;
  }

  kill(): void {
    this.faults.dead = true;
  }

  async dispose(): Promise<void> {
    if (!this.faults.dead) await Promise.all(this.#runners.map((it) => it[Symbol.asyncDispose]()));
    await this.log[Symbol.asyncDispose]();
  }
}

/** Replicas on one database; all of them end with the test. */
export class World implements AsyncDisposable {
  readonly #store: Store;
  readonly #replicas: Replica[] = [];

  constructor(store: Store) {
    this.#store = store;
  }

  replica(options: ReplicaOptions = {}): Replica {
    const replica = new Replica(this.#store, options);
    this.#replicas.push(replica);
    return replica;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#replicas.map((replica) => replica.dispose()));
    await this.#store[Symbol.asyncDispose]();
  }
}

/** A lease short enough to wait for; give it only to a replica that the test kills or stops. */
export const MORTAL: LogOptions = { heartbeatMs: 40, leaseMs: 160 };

let messages = 0;
export function turn(agent: string, task: string, fields: Partial<Turn> = {}): Turn {
  const messageId = `m${++messages}`;
  return { agent, task, context: 'c', messageId, parts: [{ text: 'hi' }], ...fields };
}

export const answer = (agent: string, task: string, id: string, content?: unknown): Turn =>
  turn(agent, task, { parts: [], answers: [{ id, action: 'accept', content }] });

export const started: AgentEvent = { type: 'run.started' };
export const completed: AgentEvent = { type: 'run.finished', outcome: 'completed', text: '' };

/** A new task of agent `a`, claimed. */
export async function claimed(log: TaskLog, task: string): Promise<Claim> {
  const { claim } = await log.submit(turn('a', task), { worker: 'A' });
  if (!claim) throw new Error(`task ${task} was not free`);
  return claim;
}

/** The task as soon as it is so, by reading its log. */
export async function until(
  log: TaskLog,
  task: string,
  holds: (snapshot: Snapshot) => boolean,
): Promise<Snapshot> {
  let snapshot: Snapshot | undefined;
  for await (const entry of log.read(task, 0)) {
    snapshot = advance(snapshot, entry);
    if (holds(snapshot)) return snapshot;
  }
  throw new Error(`task ${task} ended as ${snapshot?.state} and it never held`);
}

/** A task that has ended after a text of so many characters. */
export async function longTask(log: TaskLog, task: string, chars: number): Promise<void> {
  const claim = await claimed(log, task);
  await log.append(claim, 1, [started, say('x'.repeat(chars)), completed]);
}

export async function collect<T>(items: AsyncIterable<T>, limit: number = Infinity): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) if (all.push(item) >= limit) break;
  return all;
}

/** The log without what is said, as words: `run.finished:completed`. */
export const shape = (entries: readonly Entry[]): string[] =>
  entries
    .filter((entry) => !entry.type.endsWith('.delta') && entry.type !== 'text.end')
    .map((entry) =>
      entry.type === 'run.finished' ? `${entry.type}:${entry.outcome}` : entry.type,
    );

/** What a client shows after these entries: a new attempt that discards starts over. */
export const textOf = (entries: readonly Entry[]): string =>
  entries.reduce((text, entry) => {
    if (entry.type === 'run.started' && entry.discard) return '';
    return entry.type === 'text.delta' ? text + entry.delta : text;
  }, '');

export const say = (delta: string, id: string = 't'): AgentEvent => ({
  type: 'text.delta',
  id,
  delta,
});

export const manyWords = (count: number, tag = 'w'): string =>
  Array.from({ length: count }, (_, index) => `${tag}${index} `).join('');

/** Says so many words with a pause before each; `deaf` does not look at its signal. */
export function words(
  count: number,
  pauseMs: number,
  { deaf = false, tag = 'w', ...flags }: { deaf?: boolean; tag?: string; resumable?: boolean } = {},
): Agent {
  const agent: Agent = async function* (_turn, ctx) {
    for (let index = 0; index < count; index++) {
      if (!deaf) ctx.signal.throwIfAborted();
      if (pauseMs > 0) await sleep(pauseMs);
      yield say(`${tag}${index} `);
    }
  };
  return Object.assign(agent, flags);
}

/** Files a ticket that a person has to approve; continues where the log ends. */
export function ticketAgent(tickets: Map<string, string>): Agent {
  const callId = 'toolu_1';
  const name = 'create_ticket';
  const agent: Agent = async function* (_turn, ctx) {
    yield { type: 'run.started', sessionId: 's1' };
    if (ctx.task.calls.length === 0) {
      yield say('Let me file that. ', 'a');
      yield { type: 'tool.called', callId, name, args: { title: 'Fix login bug' } };
    }
    const { action } = await ctx.ask({ id: `${callId}/review`, kind: 'approval', callId });
    if (action === 'accept') tickets.set(callId, 'TKT-42');
    yield { type: 'tool.completed', callId, name, output: action };
    yield say('Filed as TKT-42.', 'b');
  };
  return Object.assign(agent, { continues: true });
}

/** Asks by itself and starts over when it is called again. */
export const askingAgent: Agent = async function* (turn, ctx) {
  yield say('Checking. ');
  const { content } = await ctx.ask({ id: `${turn.messageId}/ok`, kind: 'question' });
  yield say(`You said ${String(content)}.`);
};
