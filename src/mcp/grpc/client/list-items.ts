import { create } from '@bufbuild/protobuf';
import { DuolaneError } from '../../../errors.ts';
import type { GrpcClient } from '../../../grpc/index.ts';
import type { JsonObject } from '../../../json.ts';
import { Cancellation } from '../../../stream/cancellation.ts';
import { Puller } from '../../../stream/puller.ts';
import { QueueReader } from '../../../stream/queue-reader.ts';
import type { Abortable, Items, ListOptions } from '../../../stream/types.ts';
import { parseCheckpoint, toCheckpoint } from '../../sources/checkpoint.ts';
import { mapErrors, fromGrpcError } from '../codec/grpc-errors.ts';
import { ListRequestSchema } from '../gen/mcp/stream/v1/mcp_pb.ts';
import { type ItemBatch, decodeBatch } from '../codec/batch-codec.ts';
import { member } from '../codec/json-text.ts';
import type { ListMethod } from '../codec/list-methods.ts';

const NONE: ItemBatch = { items: [], checkpoint: undefined };

/**
 * A list as it streams in, single use. Its place is the last checkpoint that the server gave and the
 * number of items behind that, so that a list goes on behind any item, whatever the server knows.
 */
export class ListItems<T extends JsonObject> implements Items<T> {
  readonly #client: GrpcClient;
  readonly #list: ListMethod;
  readonly #options: Abortable;
  #reader: QueueReader<T> | undefined;
  #batch = NONE;
  /** Which item of the batch comes next. */
  #next = 0;
  /** Items behind the mark that were taken from an earlier list. */
  #skip = 0;
  #mark: string | undefined;
  /** Items taken behind the mark. */
  #taken = 0;

  constructor(client: GrpcClient, list: ListMethod, options: ListOptions = {}) {
    this.#client = client;
    this.#list = list;
    this.#options = options;
    const { after } = options;
    if (after !== undefined) [this.#taken, this.#mark] = parseCheckpoint(after);
  }

  get checkpoint(): string | undefined {
    const begun = this.#taken > 0 || this.#mark !== undefined;
    return begun ? toCheckpoint(this.#taken, this.#mark) : undefined;
  }

  /** Not a generator: an item of a batch that is there costs one promise. */
  [Symbol.asyncIterator](): QueueReader<T> {
    if (this.#reader) throw new DuolaneError('closed', 'a list is read once; list again');
    [this.#skip, this.#taken] = [this.#taken, 0];
    const call = new Cancellation();
    const unfollow = call.follow(this.#options);
    const batches = new Puller(this.#batches(call.signal), () => reader.wake());
    const reader = new QueueReader<T>({
      take: () => this.#take(batches),
      cancel: async () => {
        unfollow();
        this.#batch = NONE;
        const left = batches.cancel();
        // Whoever leaves while a batch is on its way does not wait for it.
        call.abort(new DuolaneError('canceled', 'the list was left'));
        reader.wake();
        await left;
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
          [this.#taken, this.#mark] = [0, checkpoint];
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

  #batches(signal: AbortSignal): AsyncIterable<ItemBatch> {
    const { layout, method } = this.#list;
    const response = {
      encode: (): never => {
        throw new DuolaneError('unsupported', 'a client sends no batches');
      },
      decode: (bytes: Uint8Array) => decodeBatch(layout, bytes),
    };
    const request = create(ListRequestSchema, member('startAfter', this.#mark));
    return mapErrors(
      () => this.#client.stream({ ...method, response }, { one: request }, { signal }),
      fromGrpcError,
    );
  }
}
