import type { AgentEvent } from '../../event/types.ts';

const MAX_EVENTS = 512;
const MAX_CHARS = 256 * 1024;
const MAX_JOINED_CHARS = 32 * 1024;

/**
 * Combines events into batches: one batch is being written, and what arrives meanwhile is the next,
 * with deltas of a block joined. The first event after a pause waits for the end of this turn of
 * the event loop, so that events which an agent yields together are one commit. So a fast store
 * gets an entry for each token and a busy one gets longer entries, without a timer. A full batch
 * makes `push` wait, and so the agent.
 */
export class WriteCombiner {
  readonly #put: (events: readonly AgentEvent[]) => Promise<void>;
  readonly #onFailure: (error: unknown) => void;
  #batch: AgentEvent[] = [];
  #chars = 0;
  #running: Promise<void> | undefined;
  #failure: { readonly error: unknown } | undefined;
  /** Called when the next batch is written, or has failed. */
  #onWritten: (() => void)[] = [];
  /** Ends the wait for the end of the turn of the event loop. */
  #go = (): void => {};

  /** `onFailure` is called when a batch failed; from then on `push` and `flush` throw its error. */
  constructor(
    put: (events: readonly AgentEvent[]) => Promise<void>,
    onFailure: (error: unknown) => void,
  ) {
    this.#put = put;
    this.#onFailure = onFailure;
  }

  /** Takes the event. If the batch is full, returns a promise that resolves when there is room. */
  push(event: AgentEvent): Promise<void> | undefined {
    this.#check();
    this.#add(event);
    this.#running ??= this.#turnEnds().then(() => this.#run());
    return this.#full ? this.#room() : undefined;
  }

  /**
   * Resolves when everything up to the last `push` is durable. Unlike `flush` it does not hurry,
   * and does not wait for what is pushed later.
   */
  async written(): Promise<void> {
    if (this.#batch.length > 0) await new Promise<void>((resolve) => this.#onWritten.push(resolve));
    else if (this.#running) await this.#running;
    this.#check();
  }

  /** Resolves when everything is durable. */
  async flush(): Promise<void> {
    this.#go();
    while (this.#running !== undefined) await this.#running;
    this.#check();
  }

  async #room(): Promise<void> {
    while (this.#full && this.#running !== undefined) {
      this.#go();
      await this.#running;
    }
    this.#check();
  }

  get #full(): boolean {
    return this.#batch.length >= MAX_EVENTS || this.#chars >= MAX_CHARS;
  }

  #turnEnds(): Promise<void> {
    return new Promise((resolve) => {
      const turn = setImmediate(resolve);
      this.#go = () => {
        clearImmediate(turn);
        resolve();
      };
    });
  }

  #add(event: AgentEvent): void {
    const last = this.#batch.at(-1);
    const joined = last && join(last, event);
    this.#chars += sizeOf(event);
    if (joined) this.#batch[this.#batch.length - 1] = joined;
    else this.#batch.push(event);
  }

  // Writes one batch for each turn of the loop, so that a `push` that waits for room goes on after
  // the next batch.
  async #run(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    this.#chars = 0;
    const onWritten = this.#onWritten;
    this.#onWritten = [];
    try {
      await this.#put(batch);
    } catch (error) {
      this.#failure = { error };
      this.#batch = [];
      this.#onFailure(error);
      onWritten.push(...this.#onWritten.splice(0));
    }
    for (const resolve of onWritten) resolve();
    this.#running = this.#batch.length > 0 ? this.#run() : undefined;
  }

  #check(): void {
    if (this.#failure) throw this.#failure.error;
  }
}

function join(last: AgentEvent, next: AgentEvent): AgentEvent | undefined {
  if (last.type !== next.type || !samePath(last.path, next.path)) return undefined;
  if (next.type === 'tool.args' && last.type === 'tool.args')
    return last.callId === next.callId ? joined(last, next) : undefined;
  if (
    (next.type === 'text.delta' || next.type === 'reasoning.delta') &&
    (last.type === 'text.delta' || last.type === 'reasoning.delta')
  )
    return last.id === next.id ? joined(last, next) : undefined;
  return undefined;
}

function joined<T extends AgentEvent & { readonly delta: string }>(
  last: T,
  next: { readonly delta: string },
): T | undefined {
  if (last.delta.length + next.delta.length > MAX_JOINED_CHARS) return undefined;
  return { ...last, delta: last.delta + next.delta };
}

const samePath = (a: readonly string[] = [], b: readonly string[] = []): boolean =>
  a.length === b.length && a.every((name, index) => name === b[index]);

// Counts what is long in many events; an entry of any other type has its own limit.
function sizeOf(event: AgentEvent): number {
  if ('delta' in event) return event.delta.length;
  if (event.type === 'text.end' || event.type === 'reasoning.end') return event.text.length;
  return 256;
}
