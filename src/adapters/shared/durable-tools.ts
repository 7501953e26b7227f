import { createHash } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import type { AgentContext } from '../../event/types.ts';
import { type BegunCall, beginCall } from './durable-call.ts';
import { decodeValue, encodeValue } from './value-codec.ts';

/** How a tool ended, as the log keeps it. */
type ToolEnd = ({ readonly output: unknown } | { readonly thrown: unknown }) & {
  /** Its place among the ends of the run: some frameworks send results in this order. */
  readonly order: number;
};

const UNREAD = new DuolaneError('canceled', 'the output of the tool is no longer read');
const MAX_ID_CHARS = 200;

/**
 * The tool calls of one run as durable steps: a call that has finished returns, or throws, from the
 * log when the agent is called again. A call is found by the id that the model gave it.
 */
export class DurableTools {
  readonly #ctx: AgentContext;
  readonly #uses = new Map<string, number>();
  #ends = 0;
  /** Stored results that wait for their turn. */
  readonly #waiting: { readonly order: number; readonly release: () => void }[] = [];

  constructor(ctx: AgentContext) {
    this.#ctx = ctx;
  }

  /**
   * Makes a call, or returns what the log has. An output for which `isStored` is false is not
   * kept, so that the call is made again.
   */
  async call(
    callId: string,
    run: () => Promise<unknown>,
    isStored: (output: unknown) => boolean = () => true,
  ): Promise<unknown> {
    const call = beginCall<ToolEnd>(this.#ctx, this.#step(callId));
    const known = await call.known;
    if (known) return this.#outputOf(await known());
    try {
      const output = await run();
      if (isStored(output)) await call.store({ output: encodeValue(output), order: ++this.#ends });
      return output;
    } catch (error) {
      await this.#storeError(call, error);
      throw error;
    } finally {
      // It does nothing if the result is stored.
      await call.abandon(UNREAD);
    }
  }

  /** Makes a call that yields its output as it grows; from the log, only the last value comes. */
  async *iterate(
    callId: string,
    run: () => AsyncIterable<unknown>,
  ): AsyncGenerator<unknown, void, undefined> {
    const call = beginCall<ToolEnd>(this.#ctx, this.#step(callId));
    const known = await call.known;
    if (known) {
      yield await this.#outputOf(await known());
      return;
    }
    let output: unknown;
    try {
      for await (const each of run()) {
        output = each;
        yield each;
      }
      await call.store({ output: encodeValue(output), order: ++this.#ends });
    } catch (error) {
      await this.#storeError(call, error);
      throw error;
    } finally {
      await call.abandon(UNREAD);
    }
  }

  /** The step of a call. A provider may give two calls one id: they are numbered. */
  #step(callId: string): string {
    const id =
      callId.length > MAX_ID_CHARS ? createHash('sha256').update(callId).digest('hex') : callId;
    const uses = (this.#uses.get(id) ?? 0) + 1;
    this.#uses.set(id, uses);
    return uses === 1 ? `tool ${id}` : `tool ${id} ${uses}`;
  }

  async #outputOf(end: ToolEnd): Promise<unknown> {
    this.#ends = Math.max(this.#ends, end.order);
    await new Promise<void>((release) => {
      this.#waiting.push({ order: end.order, release });
      // The calls of one message start in one go.
      if (this.#waiting.length === 1) setImmediate(this.#release);
    });
    if ('thrown' in end) throw decodeValue(end.thrown);
    return decodeValue(end.output);
  }

  /**
   * Releases the stored result that had come first. The framework takes it before the next one is
   * released.
   */
  readonly #release = (): void => {
    this.#waiting.sort((one, other) => one.order - other.order);
    this.#waiting.shift()?.release();
    if (this.#waiting.length > 0) setImmediate(this.#release);
  };

  /** The model gets the error of a tool. A run that is stopped is not such an error. */
  async #storeError(call: BegunCall<ToolEnd>, error: unknown): Promise<void> {
    const { signal } = this.#ctx;
    if (signal.aborted) await call.abandon(signal.reason);
    else await call.store({ thrown: encodeValue(error), order: ++this.#ends });
  }
}
