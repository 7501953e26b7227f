import { getHeapStatistics } from 'node:v8';

/** Who has read nothing for so long may be cut when others need the memory. */
const IDLE_MS = 1000;

/** A long answer on its way. */
export interface Sending {
  /** So many bytes of it have gone out. */
  sent(bytes: number): void;
  /** It is over, however it ended. */
  end(): void;
}

/**
 * What long answers hold that their clients have not read yet, of all connections together. Without a limit, a client
 * that asks often and reads nothing fills the memory with small requests.
 */
export class UnsentBytes {
  readonly #max: number;
  readonly #now: () => number;
  /** The one that was read longest ago comes first. */
  readonly #sendings = new Set<{ left: number; readAt: number; readonly cut: () => void }>();
  #bytes = 0;

  constructor(max: number = defaultMax(), now: () => number = () => performance.now()) {
    this.#max = max;
    this.#now = now;
  }

  /**
   * Takes the place of a long answer; undefined if there is none. Clients that have stopped reading make room for
   * it: `cut` ends theirs.
   */
  begin(bytes: number, cut: () => void): Sending | undefined {
    for (const sending of this.#sendings) {
      if (this.#fits(bytes) || this.#now() - sending.readAt < IDLE_MS) break;
      this.#end(sending);
      sending.cut();
    }
    if (!this.#fits(bytes)) return undefined;
    const sending = { left: bytes, readAt: this.#now(), cut };
    this.#sendings.add(sending);
    this.#bytes += bytes;
    return {
      sent: (count) => {
        if (!this.#sendings.delete(sending)) return;
        this.#sendings.add(sending);
        sending.left -= count;
        sending.readAt = this.#now();
        this.#bytes -= count;
      },
      end: () => this.#end(sending),
    };
  }

  // One is always sent, however long it is.
  #fits(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#max;
  }

  #end(sending: {
    readonly left: number;
    readonly readAt: number;
    readonly cut: () => void;
  }): void {
    if (this.#sendings.delete(sending as never)) this.#bytes -= sending.left;
  }
}

/** A quarter of what the heap may have, and 64 MiB at least. */
const defaultMax = (): number => Math.max(64 << 20, getHeapStatistics().heap_size_limit / 4);
