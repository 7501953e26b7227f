import { checkLaws } from '../../src/event/index.ts';
import type { Entry } from '../../src/event/types.ts';
import { manyWords, textOf } from '../task-world.ts';
import { startPostgres } from './postgres.ts';
import { collect, follow, Replica, type ReplicaOptions } from './replicas.ts';
import { type TcpProxy, tcpProxy } from './tcp-proxy.ts';

export interface SoakOptions {
  readonly ms: number;
  readonly replicas: number;
  readonly streams: number;
  /** A fault about as often. */
  readonly faultMs: number;
  readonly onProgress?: (report: SoakReport) => void;
}

export interface SoakReport {
  tasks: number;
  /** Entries that a client saw live and that were compared with the log. */
  events: number;
  completed: number;
  canceled: number;
  interrupted: number;
  kills: number;
  stops: number;
  cuts: number;
  stalls: number;
  restarts: number;
  crashes: number;
  /** What was lost, doubled, reordered, unlawful or without its end, in words. Must stay empty. */
  readonly losses: string[];
}

const HEARTBEAT_MS = 1500;

interface Node {
  readonly proxy: TcpProxy;
  replica: Replica | undefined;
}

/**
 * Replicas on one PostgreSQL, each behind a network of its own, with clients that always follow so
 * many tasks, while replicas are killed, stopped, restarted and cut off and the database crashes.
 * Every stream is compared with the log when its task has ended.
 */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const report: SoakReport = {
    tasks: 0,
    events: 0,
    completed: 0,
    canceled: 0,
    interrupted: 0,
    kills: 0,
    stops: 0,
    cuts: 0,
    stalls: 0,
    restarts: 0,
    crashes: 0,
    losses: [],
  };
  await using database = await startPostgres();
  const nodes: Node[] = [];
  const alive = (): Replica[] => nodes.flatMap(({ replica }) => replica ?? []);
  await using _end = {
    async [Symbol.asyncDispose]() {
      await Promise.all(alive().map((replica) => replica[Symbol.asyncDispose]()));
      await Promise.all(nodes.map(({ proxy }) => proxy[Symbol.asyncDispose]()));
    },
  };
  const optionsOf = ({ proxy }: Node): ReplicaOptions => ({
    log: {
      connectionString: database.url.replace(`:${database.port}/`, `:${proxy.port}/`),
      heartbeatMs: HEARTBEAT_MS,
      pollMs: HEARTBEAT_MS,
      answerMs: 2 * HEARTBEAT_MS,
    },
    maxRuns: options.streams,
    graceMs: 500,
  });
  for (let index = 0; index < options.replicas; index++)
    nodes.push({ proxy: await tcpProxy(database.port), replica: undefined });
  // One after the other would do; all at once also tries the migration.
  await Promise.all(nodes.map(async (node) => (node.replica = await begin(optionsOf(node)))));

  const deadline = Date.now() + options.ms;
  const over = new AbortController();

  const client = async (): Promise<void> => {
    while (Date.now() < deadline) {
      try {
        await followOne(alive, report, over.signal);
      } catch (error) {
        if (over.signal.aborted) return;
        report.losses.push(String(error));
      }
    }
  };
  const trouble = async (): Promise<void> => {
    while (Date.now() < deadline) {
      await pause(options.faultMs * (0.5 + Math.random()));
      await fault(nodes, optionsOf, database, report);
      options.onProgress?.(report);
    }
  };
  const clients = Promise.all(Array.from({ length: options.streams }, client));
  await trouble();
  // Everybody is well again; what is open has to end.
  const late = setTimeout(() => {
    report.losses.push('some streams did not end within two minutes');
    over.abort(new Error('too late'));
  }, 120_000);
  await clients;
  clearTimeout(late);
  return report;
}

async function followOne(
  alive: () => readonly Replica[],
  report: SoakReport,
  signal: AbortSignal,
): Promise<void> {
  const words = 20 + Math.floor(Math.random() * 200);
  const agent = Math.random() < 0.5 ? 'again' : 'count';
  const cancelAt = Math.random() < 0.2 ? Math.floor(Math.random() * 100) : Infinity;
  const task = await submit(
    alive,
    agent,
    `${words} words of ${5 + Math.floor(Math.random() * 40)} ms`,
  );
  if (task === undefined) return;
  report.tasks++;
  const seen: Entry[] = [];
  const somewhere = (): readonly Replica[] => alive().toSorted(() => Math.random() - 0.5);
  for await (const entry of follow(somewhere, task, signal)) {
    seen.push(entry);
    // Cancel anywhere; a replica that is down or a task that has ended refuses, which is fine.
    if (entry.seq === cancelAt)
      somewhere()[0]
        ?.cancel(task)
        .catch(() => {});
  }
  const stored = await again(() => collect((somewhere()[0] as Replica).read(task)), signal);
  check(task, words, seen, stored, report);
}

function check(
  task: string,
  words: number,
  seen: readonly Entry[],
  stored: readonly Entry[],
  report: SoakReport,
): void {
  const lose = (what: string): number => report.losses.push(`task ${task}: ${what}`);
  report.events += seen.length;
  if (JSON.stringify(seen) !== JSON.stringify(stored)) lose('the stream is not the log');
  if (seen.some(({ seq }, index) => seq !== index + 1)) lose('numbers are missing or doubled');
  for (const law of checkLaws(stored)) lose(JSON.stringify(law));
  const end = stored.at(-1);
  if (end?.type !== 'run.finished') return void lose('it has no end');
  if (stored.filter(({ type }) => type === 'run.finished').length !== 1) lose('it has two ends');
  if (end.outcome === 'canceled') report.canceled++;
  else if (end.outcome === 'completed') {
    report.completed++;
    if (textOf(stored) !== manyWords(words)) lose('its text is not what was said');
  } else if (end.outcome === 'failed' && end.error?.code === 'interrupted') report.interrupted++;
  else lose(`it ended as ${end.outcome}: ${JSON.stringify(end)}`);
  if (!manyWords(words).startsWith(textOf(stored))) lose('it said what it did not say');
}

/** Undefined when nobody could be asked; whether the task was made is then not known, nor followed. */
async function submit(
  alive: () => readonly Replica[],
  agent: 'count' | 'again',
  text: string,
): Promise<string | undefined> {
  const all = alive();
  try {
    return await all[Math.floor(Math.random() * all.length)]?.submit(agent, text);
  } catch {
    await pause(100);
    return undefined;
  }
}

async function again<T>(run: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    signal.throwIfAborted();
    try {
      return await run();
    } catch {
      await pause(100);
    }
  }
}

async function fault(
  nodes: readonly Node[],
  optionsOf: (node: Node) => ReplicaOptions,
  database: { crash(): Promise<void>; start(): Promise<void> },
  report: SoakReport,
): Promise<void> {
  const node = nodes[Math.floor(Math.random() * nodes.length)] as Node;
  const replica = node.replica as Replica;
  const dice = Math.random();
  const replace = async (): Promise<void> => {
    node.replica = undefined;
    await replica.exited;
    node.replica = await begin(optionsOf(node));
  };
  if (dice < 0.25) {
    report.kills++;
    replica.signal('SIGKILL');
    await replace();
  } else if (dice < 0.4) {
    report.stops++;
    replica.signal('SIGSTOP');
    await pause(Math.random() * 6 * HEARTBEAT_MS);
    replica.signal('SIGCONT');
  } else if (dice < 0.6) {
    report.cuts++;
    node.proxy.cut();
    await pause(Math.random() * 6 * HEARTBEAT_MS);
    node.proxy.mend();
  } else if (dice < 0.8) {
    report.stalls++;
    node.proxy.stall();
    await pause(Math.random() * 6 * HEARTBEAT_MS);
    node.proxy.mend();
  } else if (dice < 0.95) {
    report.restarts++;
    replica.signal('SIGTERM');
    await replace();
  } else {
    report.crashes++;
    await database.crash();
    await pause(Math.random() * 2 * HEARTBEAT_MS);
    await database.start();
  }
}

/** As whoever runs replicas does: one that cannot start now, since the machine is too busy, is tried again. */
async function begin(options: ReplicaOptions): Promise<Replica> {
  for (let tries = 1; ; tries++) {
    try {
      return await Replica.start(options);
    } catch (error) {
      if (tries === 10) throw error;
    }
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
