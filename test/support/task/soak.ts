import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Pool } from 'pg';
import { checkLaws } from '../../../src/event/index.ts';
import type { Entry } from '../../../src/event/types.ts';
import { manyWords, textOf } from '../../task/replica-world.ts';
import { startPostgres } from './postgres.ts';
import { collect, follow, type Replica } from './replicas.ts';
import {
  begin,
  FAULTS,
  type FaultName,
  HEARTBEAT_MS,
  type Node,
  pause,
  shuffled,
} from './soak-faults.ts';
import { tcpProxy } from '../tcp-proxy.ts';

export interface SoakOptions {
  /** The minimum duration; longer until every kind of fault has occurred. */
  readonly ms: number;
  readonly replicas: number;
  /** The number of concurrent streams, each with its own task. */
  readonly streams: number;
  /** The average pause between two words of a stream. */
  readonly wordMs: number;
  /** The average pause between two faults. */
  readonly faultMs: number;
  /** Conversations with an agent CLI of so many turns each, instead of single tasks. */
  readonly sessionTurns?: number;
  readonly onProgress?: (report: SoakReport) => void;
}

export interface SoakReport extends Record<FaultName, number> {
  tasks: number;
  /** Entries that a client saw live and that were compared with the log. */
  events: number;
  completed: number;
  canceled: number;
  interrupted: number;
  /** Submissions that were repeated with the same message id because no response came. */
  repeats: number;
  /**
   * A sentence for each entry that was lost, repeated, reordered or invalid, and each missing end.
   * Must stay empty.
   */
  readonly losses: string[];
}

/** One line of text: how much was checked, under which faults, and what was lost. */
export function soakLine({ losses, ...counts }: SoakReport): string {
  const shown = Object.entries(counts).map(([what, count]) => `${count} ${what}`);
  return [...shown, `${losses.length} losses`].join(', ');
}

/** The time in which open tasks must end after the last fault. */
const END_MS = 180_000;

/**
 * Replicas on one PostgreSQL, each behind its own proxy, with clients that follow a fixed number of
 * tasks, while replicas are killed, stopped, restarted and disconnected and the database crashes.
 * Every stream is compared with the log when its task has ended, and the log must have no other
 * task.
 */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const report: SoakReport = {
    tasks: 0,
    events: 0,
    completed: 0,
    canceled: 0,
    interrupted: 0,
    repeats: 0,
    kills: 0,
    stops: 0,
    cuts: 0,
    stalls: 0,
    restarts: 0,
    crashes: 0,
    losses: [],
  };
  await using database = await startPostgres();
  const homes = mkdtempSync(join(tmpdir(), 'duolane-soak-'));
  const nodes: Node[] = [];
  const alive = (): Replica[] => nodes.flatMap(({ replica }) => replica ?? []);
  await using _end = {
    async [Symbol.asyncDispose]() {
      await Promise.all(alive().map((replica) => replica[Symbol.asyncDispose]()));
      await Promise.all(nodes.map(({ proxy }) => proxy[Symbol.asyncDispose]()));
      rmSync(homes, { recursive: true, force: true, maxRetries: 5 });
    },
  };
  for (let index = 0; index < options.replicas; index++) {
    const proxy = await tcpProxy(database.port);
    const settings = {
      log: {
        connectionString: database.url.replace(`:${database.port}/`, `:${proxy.port}/`),
        heartbeatMs: HEARTBEAT_MS,
        pollMs: HEARTBEAT_MS,
        answerMs: 2 * HEARTBEAT_MS,
      },
      maxRuns: options.streams,
      graceMs: 500,
      ...(options.sessionTurns && { home: join(homes, String(index)) }),
    };
    nodes.push({ proxy, settings, replica: undefined });
  }
  // They start concurrently, which also tests the migration of the schema.
  await Promise.all(nodes.map(begin));

  const over = new AbortController();
  const followed = new Set<string>();
  let troubled = true;
  const client = async (): Promise<void> => {
    while (troubled) {
      const seen = new Client(alive, report, over.signal);
      try {
        const tasks = options.sessionTurns
          ? seen.converse(options.wordMs, options.sessionTurns)
          : [seen.follow(options.wordMs)];
        for await (const task of tasks) followed.add(task);
      } catch (error) {
        if (over.signal.aborted) return;
        report.losses.push(String(error));
      }
    }
  };
  const trouble = async (): Promise<void> => {
    const deadline = Date.now() + options.ms;
    for (let dealt = 0; dealt < FAULTS.length || Date.now() < deadline;) {
      // Shuffled like a deck of cards: random, but every fault occurs regularly.
      for (const [name, make] of shuffled(FAULTS)) {
        await pause(options.faultMs * (0.5 + Math.random()));
        report[name]++;
        dealt++;
        await make({ nodes, database });
        options.onProgress?.(report);
        if (dealt >= FAULTS.length && Date.now() >= deadline) break;
      }
    }
  };
  const clients = Promise.all(Array.from({ length: options.streams }, client));
  try {
    await trouble();
  } catch (error) {
    over.abort(error); // no replica can be started any more, so that no client waits for one
    throw error;
  } finally {
    troubled = false;
  }
  // All faults are over; every open task must end.
  const late = setTimeout(() => {
    report.losses.push(`some streams did not end within ${END_MS / 1000} s`);
    over.abort(new Error('too late'));
  }, END_MS);
  await clients;
  clearTimeout(late);
  for (const task of await tasksIn(database.url))
    if (!followed.has(task)) report.losses.push(`task ${task}: created, but no client got its id`);
  return report;
}

/** A client that submits one task, follows it despite all faults, and compares it with the log. */
class Client {
  readonly #alive: () => readonly Replica[];
  readonly #report: SoakReport;
  readonly #signal: AbortSignal;

  constructor(alive: () => readonly Replica[], report: SoakReport, signal: AbortSignal) {
    this.#alive = alive;
    this.#report = report;
    this.#signal = signal;
  }

  /** Returns the id of the task when it has ended. */
  async follow(wordMs: number): Promise<string> {
    const words = 5 + Math.floor(Math.random() * 25);
    const agent = Math.random() < 0.5 ? 'again' : 'count';
    const cancelAt = Math.random() < 0.2 ? 2 + Math.floor(Math.random() * 10) : Infinity;
    const ms = Math.ceil(wordMs * (0.2 + 1.6 * Math.random()));
    const messageId = randomUUID();
    const send = (replica: Replica): Promise<string> =>
      replica.submit(agent, `${words} words of ${ms} ms`, messageId);
    const task = await this.#again(send, () => this.#report.repeats++);
    // Some clients lose the response and retry at another replica.
    if (Math.random() < 0.05) {
      this.#report.repeats++;
      const same = await this.#again(send);
      if (same !== task) this.#report.losses.push(`task ${task}: sent again it is ${same}`);
    }
    this.#report.tasks++;
    const seen: Entry[] = [];
    for await (const entry of follow(() => shuffled(this.#alive()), task, this.#signal)) {
      seen.push(entry);
      // Cancel at any replica. One that is down, or a task that has ended, refuses; that is
      // correct.
      if (entry.seq === cancelAt)
        this.#somebody()
          ?.cancel(task)
          .catch(() => {});
    }
    await this.#compare(task, manyWords(words), seen);
    return task;
  }

  /**
   * Has a conversation with the agent CLI: each turn is a task of one context, and says how many
   * turns came before it. Yields the ids of the tasks.
   */
  async *converse(wordMs: number, turns: number): AsyncGenerator<string, void> {
    const context = randomUUID();
    for (let number = 1; number <= turns; number++) {
      const words = 3 + Math.floor(Math.random() * 8);
      const ms = Math.ceil(wordMs * (0.2 + 1.6 * Math.random()));
      const [messageId, text] = [randomUUID(), `${words} words of ${ms} ms`];
      const task = await this.#again(
        (replica) => replica.submit('session', text, messageId, context),
        () => this.#report.repeats++,
      );
      this.#report.tasks++;
      const seen: Entry[] = [];
      for await (const entry of follow(() => shuffled(this.#alive()), task, this.#signal))
        seen.push(entry);
      const end = await this.#compare(task, `${number}: ${manyWords(words)}`, seen);
      if (end?.type === 'run.finished' && end.outcome !== 'completed')
        this.#report.losses.push(`task ${task}: turn ${number} failed: ${JSON.stringify(end)}`);
      yield task;
    }
  }

  /** Compares what a client saw with the log; returns the last entry. */
  async #compare(task: string, text: string, seen: readonly Entry[]): Promise<Entry | undefined> {
    const stored = await this.#again((replica) => collect(replica.read(task)));
    for (const what of problemsOf(text, seen, stored))
      this.#report.losses.push(`task ${task}: ${what}`);
    this.#count(seen, stored.at(-1));
    return stored.at(-1);
  }

  #count(seen: readonly Entry[], end: Entry | undefined): void {
    this.#report.events += seen.length;
    if (end?.type !== 'run.finished') return;
    if (end.outcome === 'completed' || end.outcome === 'canceled') this.#report[end.outcome]++;
    else this.#report.interrupted++;
  }

  #somebody(): Replica | undefined {
    return shuffled(this.#alive())[0];
  }

  /** Retries until it succeeds, each time at a replica that is running. */
  async #again<T>(run: (replica: Replica) => Promise<T>, failed?: () => void): Promise<T> {
    for (;;) {
      this.#signal.throwIfAborted();
      const replica = this.#somebody();
      try {
        if (replica) return await run(replica);
      } catch {
        failed?.();
      }
      await pause(100);
    }
  }
}

function problemsOf(text: string, seen: readonly Entry[], stored: readonly Entry[]): string[] {
  const problems: string[] = [];
  if (JSON.stringify(seen) !== JSON.stringify(stored)) problems.push('the stream is not the log');
  if (seen.some(({ seq }, index) => seq !== index + 1))
    problems.push('numbers are missing or doubled');
  for (const law of checkLaws(stored)) problems.push(JSON.stringify(law));
  const ends = stored.filter((entry) => entry.type === 'run.finished');
  if (ends.length !== 1) problems.push(`it has ${ends.length} ends`);
  const end = stored.at(-1);
  if (end?.type !== 'run.finished') return [...problems, 'its end is not the last'];
  const said = textOf(stored);
  if (!text.startsWith(said)) problems.push('it said what it did not say');
  if (end.outcome === 'completed' && said !== text) problems.push('its text is not what was said');
  if (end.outcome === 'failed' && end.error?.code === 'interrupted') return problems;
  if (end.outcome !== 'completed' && end.outcome !== 'canceled')
    problems.push(`it ended as ${JSON.stringify(end)}`);
  return problems;
}

async function tasksIn(connectionString: string): Promise<readonly string[]> {
  const pool = new Pool({ connectionString });
  const { rows } = await pool.query<{ id: string }>('select id from duolane.tasks');
  await pool.end();
  return rows.map(({ id }) => id);
}
