import { type ChildProcess, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { decodeEntry } from '../../../src/event/entry-codec.ts';
import type { Entry, Snapshot } from '../../../src/event/types.ts';
import type { ReplicaInfo } from '../../../src/task/index.ts';
import type { PostgresLogOptions } from '../../../src/task/postgres/postgres-log.ts';
import { InvalidLine, SseDecoder } from '../../../src/wire/index.ts';

const program = fileURLToPath(new URL('../../fixtures/replica.mjs', import.meta.url));

export interface ReplicaOptions {
  readonly log: Omit<PostgresLogOptions, 'pool' | 'bus' | 'blobs'>;
  /** Without wake-up notifications, sent or received. */
  readonly deaf?: boolean;
  /** The folder of its agent `session`, an agent CLI; emptied when the replica starts. */
  readonly home?: string;
  readonly port?: number;
  readonly maxRuns?: number;
  readonly queue?: boolean;
  readonly graceMs?: number;
}

/** Why an agent of a replica was stopped. */
export interface Stopped {
  readonly stopped: string;
  readonly code: string;
}

/** One of several server processes; it ends with its scope in any case. */
export class Replica implements AsyncDisposable {
  readonly process: ChildProcess;
  readonly exited: Promise<unknown>;
  readonly stops: Stopped[] = [];
  readonly #said = new EventEmitter();
  url = '';

  private constructor(options: ReplicaOptions) {
    this.process = spawn(process.execPath, [program, JSON.stringify(options)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.exited = once(this.process, 'exit');
    const lines = createInterface({ input: this.process.stdout as NodeJS.ReadableStream });
    lines.on('line', (line) => {
      const said = JSON.parse(line) as { readonly url?: string } & Partial<Stopped>;
      if (said.url !== undefined) this.url = said.url;
      else this.stops.push(said as Stopped);
      this.#said.emit('said');
    });
  }

  static async start(options: ReplicaOptions): Promise<Replica> {
    const replica = new Replica(options);
    await Promise.race([once(replica.#said, 'said'), replica.exited]);
    if (replica.url === '') throw new Error('the replica did not start');
    return replica;
  }

  signal(signal: NodeJS.Signals): void {
    this.process.kill(signal);
  }

  /** Resolves when an agent was stopped for this task. */
  async stopOf(task: string): Promise<Stopped> {
    for (;;) {
      const found = this.stops.find(({ stopped }) => stopped === task);
      if (found) return found;
      await once(this.#said, 'said');
    }
  }

  /**
   * Submits a message; returns the id of the new task, or of the task that the message created
   * before.
   */
  async submit(
    agent: 'count' | 'again' | 'session',
    text: string,
    messageId?: string,
    context?: string,
  ): Promise<string> {
    const response = await this.#post(`/api/agents/${agent}/turns`, { text, messageId, context });
    return ((await response.json()) as { readonly task: string }).task;
  }

  async cancel(task: string): Promise<void> {
    await this.#post(`/api/tasks/${task}/cancel`, {});
  }

  async get(task: string): Promise<Snapshot> {
    return (await (await fetch(`${this.url}/api/tasks/${task}`)).json()) as Snapshot;
  }

  async replicas(): Promise<readonly ReplicaInfo[]> {
    const response = await fetch(`${this.url}/api/replicas`);
    return ((await response.json()) as { readonly replicas: readonly ReplicaInfo[] }).replicas;
  }

  /** Yields the entries of a task behind a position, to its end. Throws if the stream breaks. */
  async *read(task: string, after = 0, signal?: AbortSignal): AsyncGenerator<Entry, void> {
    const url = `${this.url}/api/tasks/${task}/entries?after=${after}`;
    const response = await fetch(url, signal ? { signal } : {});
    if (!response.ok || !response.body) throw new Error(`the replica answered ${response.status}`);
    const decoder = new SseDecoder();
    for await (const chunk of response.body) {
      for (const message of decoder.decode(chunk)) {
        if (message instanceof InvalidLine) throw message.error;
        if (message.event === 'end') return;
        if (message.event === 'failure') throw new Error(message.data);
        if (message.event === 'message') yield decodeEntry(message.data);
      }
    }
    throw new Error('the stream broke off');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill('SIGCONT');
    this.process.kill('SIGKILL');
    await this.exited;
  }

  async #post(path: string, body: object): Promise<Response> {
    const response = await fetch(`${this.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!response.ok)
      throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
    return response;
  }
}

export async function collect(entries: AsyncIterable<Entry>): Promise<Entry[]> {
  const all: Entry[] = [];
  for await (const entry of entries) all.push(entry);
  return all;
}

/**
 * Reads a task to its end despite faults: a broken stream is resumed behind the last entry, on the
 * next of these replicas.
 */
export async function* follow(
  replicas: () => readonly Replica[],
  task: string,
  signal?: AbortSignal,
): AsyncGenerator<Entry, void> {
  let place = 0;
  for (let tries = 0; ; tries++) {
    signal?.throwIfAborted();
    const all = replicas();
    const replica = all[tries % all.length];
    try {
      for await (const entry of replica?.read(task, place, signal) ?? []) {
        place = entry.seq;
        yield entry;
      }
      if (replica) return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
