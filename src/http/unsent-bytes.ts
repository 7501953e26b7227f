import { getHeapStatistics } from 'node:v8';

/** A client that has read nothing for this long may be disconnected when others need the memory. */
export const UNREAD_MS = 1000;

/** A long response that is being sent. */
export interface Sending {
  /** Reports that the client has read something. */
  progress(): void;
  /** Reports that the response is over, however it ended. */
  end(): void;
}

/** A long response that its client has not read to the end. */
interface UnreadResponse {
  readonly bytes: number;
  readonly owner: string | undefined;
  readAt: number;
  readonly cut: () => void;
}

/**
 * Limits the memory of long responses that clients have not read yet, over all connections. Without
 * it, a client that sends many small requests and reads nothing fills the memory. One owner has at
 * most half of it: clients that read slowly would otherwise block those of other owners.
 */
export class UnsentBytes {
  readonly #max: number;
  readonly #now: () => number;
  /** The response that was read longest ago comes first. */
  readonly #sendings = new Set<UnreadResponse>();
  readonly #owners = new Map<string, number>();
  #bytes = 0;

  constructor(max: number = defaultMax(), now: () => number = () => performance.now()) {
    this.#max = max;
    this.#now = now;
  }

  /**
   * Reserves the bytes of a long response; returns `undefined` if the limit does not allow it.
   * Clients that have stopped reading are disconnected to make space: `cut` ends their response.
   * Without an `owner`, all clients are one.
   */
  begin(bytes: number, cut: () => void, owner?: string): Sending | undefined {
    for (const sending of this.#sendings) {
      const isFull = !this.#fits(bytes);
      if (!isFull && this.#fitsOwner(bytes, owner)) break;
      if (this.#now() - sending.readAt < UNREAD_MS) break;
      // The clients of others make no space in what this owner may have.
      if (!isFull && sending.owner !== owner) continue;
      this.#end(sending);
      sending.cut();
    }
    if (!this.#fits(bytes) || !this.#fitsOwner(bytes, owner)) return undefined;
    const sending = { bytes, owner, readAt: this.#now(), cut };
    this.#sendings.add(sending);
    this.#count(sending, bytes);
    return {
      // It keeps all of its bytes: a response is in memory as a whole until its last byte is sent.
      progress: () => {
        if (!this.#sendings.delete(sending)) return;
        this.#sendings.add(sending);
        sending.readAt = this.#now();
      },
      end: () => this.#end(sending),
    };
  }

  // One response is always allowed, however long it is.
  #fits(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#max;
  }

  // One response of an owner is allowed as well.
  #fitsOwner(bytes: number, owner: string | undefined): boolean {
    const own = owner === undefined ? undefined : this.#owners.get(owner);
    return own === undefined || own + bytes <= this.#max / 2;
  }

  #end(sending: UnreadResponse): void {
    if (this.#sendings.delete(sending)) this.#count(sending, -sending.bytes);
  }

  #count({ owner }: UnreadResponse, bytes: number): void {
    this.#bytes += bytes;
    if (owner === undefined) return;
    const own = (this.#owners.get(owner) ?? 0) + bytes;
    if (own > 0) this.#owners.set(owner, own);
    else this.#owners.delete(owner);
  }
}

/** A quarter of the heap limit, and at least 64 MiB. */
const defaultMax = (): number => Math.max(64 << 20, getHeapStatistics().heap_size_limit / 4);
