import { getHeapStatistics } from 'node:v8';
import { DuolaneError } from '../errors.ts';

/** Shorter bodies are not counted: most are, and a client needs a connection or a call for each. */
export const UNCOUNTED_BYTES: number = 64 * 1024;

/** A body that arrives for longer than this may be refused when others need the memory. */
export const SLOW_MS = 1000;

/** A request body, or a gRPC message, that is arriving. */
export interface Receiving {
  /** Reports how many bytes of it are in memory. Returns false if it must be refused. */
  hold(bytes: number): boolean;
  /** Reports that it is complete or over. */
  end(): void;
}

/**
 * Limits the memory of requests that are not complete yet, over all connections. Without it, a
 * client that begins many long requests and ends none fills the memory.
 */
export class ReceivedBytes {
  readonly #max: number;
  readonly #now: () => number;
  /** The body that became long first comes first. */
  readonly #bodies = new Set<{ bytes: number; readonly since: number; readonly cut: () => void }>();
  #bytes = 0;

  constructor(max: number = defaultMax(), now: () => number = () => performance.now()) {
    this.#max = max;
    this.#now = now;
  }

  /**
   * Begins a body. If the limit is reached, the body that has been arriving longest is refused by
   * its `cut`, and the newest one only if all others are new as well: otherwise a few clients that
   * send slowly would block everyone else.
   */
  begin(cut: () => void): Receiving {
    let body: { bytes: number; readonly since: number; readonly cut: () => void } | undefined;
    const end = (): void => {
      if (body && this.#bodies.delete(body)) this.#bytes -= body.bytes;
      body = undefined;
    };
    return {
      end,
      hold: (bytes) => {
        if (bytes <= UNCOUNTED_BYTES) {
          end();
          return true;
        }
        if (!body) {
          body = { bytes: 0, since: this.#now(), cut };
          this.#bodies.add(body);
        }
        this.#bytes += bytes - body.bytes;
        body.bytes = bytes;
        for (const other of this.#bodies) {
          if (this.#bytes <= this.#max || other === body) break;
          if (this.#now() - other.since < SLOW_MS) break;
          this.#bodies.delete(other);
          this.#bytes -= other.bytes;
          other.cut();
        }
        // One body is always allowed: `maxBodyBytes` limits it.
        if (this.#bytes <= this.#max || this.#bodies.size === 1) return true;
        end();
        return false;
      },
    };
  }
}

/** The error of a request that does not fit. */
export const receivingTooMuch = (): DuolaneError =>
  new DuolaneError(
    'overloaded',
    'the server is receiving too many long requests; try again, or send less',
    { retryAfterMs: 1000 },
  );

/** An eighth of the heap limit, and at least 64 MiB. */
const defaultMax = (): number => Math.max(64 << 20, getHeapStatistics().heap_size_limit / 8);
