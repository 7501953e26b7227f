import { create } from '@bufbuild/protobuf';
import { DuolaneError } from '../../../errors.ts';
import type { GrpcClient } from '../../../grpc/index.ts';
import { type JsonObject, omitUndefined } from '../../../json.ts';
import { Cancellation } from '../../../stream/cancellation.ts';
import { Puller } from '../../../stream/puller.ts';
import { QueueReader } from '../../../stream/queue-reader.ts';
import type { Abortable, Items, ListOptions } from '../../../stream/types.ts';
import { type KnownLimits, streamWithinLimits } from '../../sources/request-timer.ts';
import { parseCheckpoint, toCheckpoint } from '../../sources/checkpoint.ts';
import { fromGrpcError } from '../codec/grpc-errors.ts';
import { ListRequestSchema } from '../gen/mcp/stream/v1/mcp_pb.ts';
import { type ItemBatch, decodeBatch } from '../codec/batch-codec.ts';
import type { ListMethod } from '../codec/list-methods.ts';

const NONE: ItemBatch = { items: [], checkpoint: undefined };

/** A connection, and how long its server may be silent. */
export interface ListConnection {
  readonly client: GrpcClient;
  readonly limits: KnownLimits;
}

/**
 * A list that streams in, for one reader. Its checkpoint is the last one of the server and the
 * number of items after it, so a list can continue after any item.
 */
export class ListItems<T extends JsonObject> implements Items<T> {
  readonly #dialled: ListConnection;
  readonly #list: ListMethod;
  readonly #options: Abortable;
  #reader: QueueReader<T> | undefined;
  #batch = NONE;
  /** The index of the next item of the batch. */
  #next = 0;
  /** How many items after the checkpoint were taken from an earlier list. */
  #skip = 0;
  #base: string | undefined;
  /** How many items after the checkpoint were taken. */
  #taken = 0;

  constructor(dialled: ListConnection, list: ListMethod, options: ListOptions = {}) {
    this.#dialled = dialled;
    this.#list = list;
    this.#options = options;
    const { after } = options;
    if (after !== undefined) [this.#taken, this.#base] = parseCheckpoint(after);
  }

  get checkpoint(): string | undefined {
    const begun = this.#taken > 0 || this.#base !== undefined;
    return begun ? toCheckpoint(this.#taken, this.#base) : undefined;
  }

  /** Not a generator: an item that is already in a batch costs one promise. */
  [Symbol.asyncIterator](): QueueReader<T> {
    if (this.#reader)
      throw new DuolaneError(
        'closed',
        'cannot read the list again: a list is read once; request a new list',
      );
    [this.#skip, this.#taken] = [this.#taken, 0];
    const call = new Cancellation();
    const unfollow = call.follow(this.#options);
    const batches = new Puller(this.#batches(call.signal), () => reader.wake());
    const reader = new QueueReader<T>({
      take: () => this.#take(batches),
      cancel: async () => {
        unfollow();
        this.#batch = NONE;
        const cancelled = batches.cancel();
        // A reader that breaks out while a batch is in flight does not wait for it.
        call.abort(new DuolaneError('canceled', 'the reader cancelled the list'));
        reader.wake();
        await cancelled;
      },
    });
    this.#reader = reader;
    return reader;
  }

  #take(batches: Puller<ItemBatch>): IteratorResult<T, void> | undefined {
    for (;;) {
      const { items, checkpoint } = this.#batch;
      if (this.#next < items.length) {
        const item = items[this.#next]!;
        this.#next += 1;
        this.#taken += 1;
        if (this.#next === items.length && checkpoint !== undefined)
          [this.#taken, this.#base] = [0, checkpoint];
        if (this.#skip > 0) this.#skip -= 1;
        else {
          this.#list.check?.(item);
          return { done: false, value: item as T };
        }
      } else {
        const pulled = batches.take();
        if (!pulled || pulled.done) return pulled;
        this.#batch = pulled.value;
        this.#next = 0;
      }
    }
  }

  async *#batches(signal: AbortSignal): AsyncGenerator<ItemBatch, void, undefined> {
    const { layout, method } = this.#list;
    const one = create(ListRequestSchema, omitUndefined({ startAfter: this.#base }));
    const { client, limits } = this.#dialled;
    const perBatch = { ...limits, maxTotalMs: Infinity };
    try {
      for await (const bytes of streamWithinLimits(perBatch, 'the list', signal, (within) =>
        client.stream(method, { one }, { signal: within }),
      ))
        yield decodeBatch(layout, bytes);
    } catch (error) {
      throw fromGrpcError(error);
    }
  }
}
