import { create } from '@bufbuild/protobuf';
import { DuolaneError } from '../../errors.ts';
import type { GrpcClient } from '../../grpc/index.ts';
import type { JsonObject } from '../../json.ts';
import type { Items, ListOptions } from '../../stream/types.ts';
import { parseCheckpoint, toCheckpoint } from '../checkpoint.ts';
import { failing, fromGrpcError } from './errors.ts';
import { ListRequestSchema } from './gen/mcp/stream/v1/mcp_pb.ts';
import { type Batch, decodeBatch } from './items.ts';
import { member } from './json.ts';
import type { ListMethod } from './methods.ts';

/**
 * A list as it streams in, single use. Its place is the last checkpoint that the server gave and the
 * number of items behind that, so that a list goes on behind any item, whatever the server knows.
 */
export class ListItems<T extends JsonObject> implements Items<T> {
  readonly #client: GrpcClient;
  readonly #list: ListMethod;
  readonly #signal: AbortSignal | undefined;
  #used = false;
  #mark: string | undefined;
  /** Items taken behind the mark. */
  #taken = 0;

  constructor(client: GrpcClient, list: ListMethod, { after, signal }: ListOptions = {}) {
    this.#client = client;
    this.#list = list;
    this.#signal = signal;
    if (after !== undefined) [this.#taken, this.#mark] = parseCheckpoint(after);
  }

  get checkpoint(): string | undefined {
    const begun = this.#taken > 0 || this.#mark !== undefined;
    return begun ? toCheckpoint(this.#taken, this.#mark) : undefined;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    if (this.#used) throw new DuolaneError('closed', 'a list is read once; list again');
    this.#used = true;
    let skip = this.#taken;
    this.#taken = 0;
    for await (const batch of failing(this.#batches(this.#mark), fromGrpcError)) {
      const { items, checkpoint } = batch;
      for (let n = 0; n < items.length; n += 1) {
        this.#taken += 1;
        if (n === items.length - 1 && checkpoint !== undefined)
          [this.#taken, this.#mark] = [0, checkpoint];
        if (skip > 0) skip -= 1;
        else {
          this.#list.check?.(items[n]!);
          yield items[n] as T;
        }
      }
    }
  }

  #batches(startAfter: string | undefined): AsyncIterable<Batch> {
    const { layout, method } = this.#list;
    const response = {
      encode: (): never => {
        throw new DuolaneError('unsupported', 'a client sends no batches');
      },
      decode: (bytes: Uint8Array) => decodeBatch(layout, bytes),
    };
    return this.#client.stream(
      { ...method, response },
      { one: create(ListRequestSchema, member('startAfter', startAfter)) },
      this.#signal ? { signal: this.#signal } : {},
    );
  }
}
