import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Entry } from '../../src/event/types.ts';
import { omitUndefined } from '../../src/json.ts';
import { type ModelServer, startModelServer } from '../support/model-server.ts';
import type { Postgres } from '../support/task/postgres.ts';
import type { EndedRun } from './compare.ts';
import type { MatrixAgent } from './matrix-agent.ts';
import { answerTo } from './scene.ts';

const program = fileURLToPath(new URL('./worker.ts', import.meta.url));

/**
 * What a process suffers after an entry:
 *
 * - `kill`: kill -9
 * - `terminate`: SIGTERM, as in a deploy
 * - `stop`: SIGSTOP until another process has ended the run, then SIGCONT
 * - `pause`: SIGSTOP for longer than the lease, then SIGCONT; no other process is there
 * - `cut`: no connection to the database until another process has ended the run
 * - `blink`: no connection for less than the lease
 * - `cli`: kill -9 of the agent CLI alone
 */
export type FaultKind = 'kill' | 'terminate' | 'stop' | 'pause' | 'cut' | 'blink' | 'cli';

/** The stores, with the faults that they can have. One process alone may open a SQLite file. */
export const STORES: Readonly<Record<StoreKind, readonly FaultKind[]>> = {
  sqlite: ['kill', 'terminate', 'pause', 'cli'],
  postgres: ['kill', 'terminate', 'stop', 'cut', 'blink', 'cli'],
};

export type StoreKind = 'sqlite' | 'postgres';

/** What a process of the matrix is to do; one line of its stdin. */
export interface Job {
  readonly own: string;
  readonly modelUrl: string;
  /** The file to which each effect appends a line. */
  readonly effects: string;
  readonly leaseMs: number;
  readonly store: { readonly file?: string; readonly port?: number; readonly schema?: string };
  /** The last entry that the reader has seen. */
  readonly after: number;
  readonly fault?: FaultKind;
  readonly at?: number;
  readonly inCall?: string;
}

/** The fault of one run: what happens, and after which entry or after the effect of which call. */
export interface Fault {
  readonly kind: FaultKind;
  readonly at: number;
  /** kill -9 after the effect of this call, before its result is known; `at` does not count. */
  readonly inCall?: string;
}

/** One line of the stdout of a process. */
export type WorkerMessage = { readonly ready: true } | { readonly entry: Entry };

/** The unbroken run needs a lease that a busy machine keeps; the others must wait for its end. */
const LEASE_MS = 3000;

/** A process that has loaded the agent and waits for its job. */
class Worker implements AsyncDisposable {
  readonly child: ChildProcess;
  readonly exited: Promise<unknown>;
  readonly ready: Promise<void>;
  readonly entries: Entry[] = [];
  /** Resolves when the reader has seen an entry. */
  readonly #waiting = new Map<number, () => void>();
  #stderr = '';

  constructor(agentFile: string) {
    this.child = spawn(process.execPath, ['--import', 'tsx', program, agentFile], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.exited = once(this.child, 'exit');
    this.child.stdin?.on('error', () => {}); // a killed process reads nothing more
    this.child.stderr?.on('data', (chunk: Buffer) => {
      this.#stderr = `${this.#stderr}${chunk.toString()}`.slice(-4000);
    });
    const lines = createInterface({ input: this.child.stdout as NodeJS.ReadableStream });
    this.ready = new Promise((resolve) => {
      lines.on('line', (line) => {
        const message = JSON.parse(line) as WorkerMessage;
        if ('ready' in message) return resolve();
        this.entries.push(message.entry);
        this.#waiting.get(message.entry.seq)?.();
      });
    });
  }

  get stderr(): string {
    return this.#stderr;
  }

  write(line: string): void {
    this.child.stdin?.write(`${line}\n`);
  }

  async start(job: Job): Promise<void> {
    await Promise.race([this.ready, this.exited]);
    this.write(JSON.stringify(job));
  }

  /** Resolves when the reader has seen the entry, or the process has exited. */
  async saw(seq: number): Promise<void> {
    if (this.entries.some((entry) => entry.seq === seq)) return;
    const seen = new Promise<void>((resolve) => this.#waiting.set(seq, resolve));
    await Promise.race([seen, this.exited]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      this.child.kill('SIGCONT');
      this.child.kill('SIGKILL');
    }
    await this.exited;
  }
}

export interface PlayOptions {
  readonly agentFile: string;
  readonly agent: MatrixAgent;
  readonly store: StoreKind;
  readonly database?: Postgres;
  /** An empty folder for this run. */
  readonly folder: string;
  /** The longest time that a run may take. */
  readonly timeoutMs?: number;
}

export interface Played extends EndedRun {
  /** What is wrong with the readers and processes themselves, and what the processes reported. */
  readonly problems: readonly string[];
  readonly stderr: string;
}

/** Runs the scene to its end, with a fault after an entry or without one. */
export async function play(options: PlayOptions, fault?: Fault): Promise<Played> {
  const { agent, agentFile, folder, database, timeoutMs = 600_000 } = options;
  const { approval = true, toolName = (name: string) => name, mask = (body) => body } = agent;
  mkdirSync(folder, { recursive: true });
  const effects = join(folder, 'effects');
  writeFileSync(effects, '');
  const sample = await agent.sample?.();
  await using model = await startModelServer(
    sample
      ? ({ body }) => ({ ...sample.reply(body), pieceDelayMs: 2 })
      : answerTo({ approval, toolName, pieceDelayMs: 2 }),
  );
  await using workers = new Workers(agentFile, fault ? 2 : 1);
  const [first, second] = workers.all as [Worker, Worker];
  const base = {
    modelUrl: model.url,
    effects,
    leaseMs: fault ? LEASE_MS : 60_000,
    store:
      options.store === 'sqlite'
        ? { file: join(folder, 'tasks.db') }
        : { port: database?.port as number, schema: database?.schema() as string },
  };
  const problems: string[] = [];
  const ended = run();
  const late = sleep(timeoutMs, 'late', { ref: false });
  if ((await Promise.race([ended, late])) === 'late')
    problems.push(`the run has not ended within ${timeoutMs} ms`);
  const entries = await ended.catch((error: unknown) => {
    problems.push(String(error));
    return [];
  });
  const bodies = bodiesOf(model).map((body) => JSON.stringify(mask(body)));
  const lines = readFileSync(effects, 'utf8').split('\n').filter(Boolean);
  const stderr = workers.all.map((worker) => worker.stderr).join('');
  return { entries, bodies, effects: lines, problems, stderr };

  async function run(): Promise<readonly Entry[]> {
    const timeout = setTimeout(() => workers.kill(), timeoutMs);
    try {
      const { kind, at, inCall } = fault ?? {};
      const own = join(folder, 'first');
      const when = inCall === undefined ? { fault: kind, at } : { inCall };
      await first.start({ ...base, own, after: 0, ...omitUndefined<Partial<Job>>(when) });
      if (!fault) {
        await first.exited;
        return first.entries;
      }
      await (inCall === undefined ? first.saw(fault.at) : first.exited);
      return await followUp(fault.kind);
    } finally {
      clearTimeout(timeout);
    }
  }

  /** What happens after the fault. Returns the entries of one reader that came back. */
  async function followUp(kind: FaultKind): Promise<readonly Entry[]> {
    const goOn = async (): Promise<readonly Entry[]> => {
      const seen = [...first.entries];
      await second.start({ ...base, own: join(folder, 'second'), after: seen.at(-1)?.seq ?? 0 });
      await second.exited;
      return [...seen, ...second.entries];
    };
    switch (kind) {
      case 'kill':
      case 'terminate':
        await first.exited;
        return goOn();
      case 'stop':
      case 'cut': {
        const entries = await goOn();
        if (kind === 'stop') first.child.kill('SIGCONT');
        else first.write('mend');
        await first.exited;
        // The reader of the first process has seen the run of the second one.
        if (JSON.stringify(first.entries) !== JSON.stringify(entries))
          problems.push('the readers of the two processes differ');
        return entries;
      }
      case 'pause':
        await sleep(1.5 * LEASE_MS);
        first.child.kill('SIGCONT');
        await first.exited;
        return first.entries;
      case 'blink':
        await sleep(LEASE_MS / 6);
        first.write('mend');
        await first.exited;
        return first.entries;
      case 'cli':
        await first.exited;
        return first.entries;
    }
  }
}

class Workers implements AsyncDisposable {
  readonly all: readonly Worker[];

  constructor(agentFile: string, count: number) {
    this.all = Array.from({ length: count }, () => new Worker(agentFile));
  }

  kill(): void {
    for (const { child } of this.all) {
      child.kill('SIGCONT');
      child.kill('SIGKILL');
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((worker) => worker[Symbol.asyncDispose]()));
  }
}

const bodiesOf = ({ calls }: ModelServer): readonly ModelServer['calls'][number]['body'][] =>
  calls.map(({ body }) => body);
