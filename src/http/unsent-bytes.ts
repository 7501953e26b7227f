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
  readAt: number;
  readonly cut: () => void;
}

/**
 * Limits the memory of long responses that clients have not read yet, over all connections. Without
 * it, a client that sends many small requests and reads nothing fills the memory.
 */
export class UnsentBytes {
  readonly #max: number;
  readonly #now: () => number;
  /** The response that was read longest ago comes first. */
  readonly #sendings = new Set<UnreadResponse>();
  #bytes = 0;

  constructor(max: number = defaultMax(), now: () => number = () => performance.now()) {
    this.#max = max;
    this.#now = now;
  }

  /**
   * Reserves the bytes of a long response; returns `undefined` if the limit does not allow it.
   * Clients that have stopped reading are disconnected to make space: `cut` ends their response.
   */
  begin(bytes: number, cut: () => void): Sending | undefined {
    for (const sending of this.#sendings) {
      if (this.#fits(bytes) || this.#now() - sending.readAt < UNREAD_MS) break;
      this.#end(sending);
      sending.cut();
    }
    if (!this.#fits(bytes)) return undefined;
    const sending = { bytes, readAt: this.#now(), cut };
    this.#sendings.add(sending);
    this.#bytes += bytes;
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

  #end(sending: UnreadResponse): void {
    if (this.#sendings.delete(sending)) this.#bytes -= sending.bytes;
  }
}

/** A quarter of the heap limit, and at least 64 MiB. */
const defaultMax = (): number => Math.max(64 << 20, getHeapStatistics().heap_size_limit / 4);
