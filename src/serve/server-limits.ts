import { DuolaneError } from '../errors.ts';
import { omitUndefined } from '../json.ts';

/** The limits of one server. docs/guides/operations.md lists them in one table. */
export interface ServeLimits {
  /**
   * Open connections per listener; further ones are closed without a response. 10,000 by default.
   */
  readonly maxConnections?: number;
  /** How long a client may take to send the headers of a request (408). 20 s by default. */
  readonly headersMs?: number;
  /**
   * How long a client may take to send a request (408) or one gRPC message. 2 minutes by default.
   */
  readonly requestMs?: number;
  /** How long a client may leave sent data unread before it is disconnected. 30 s by default. */
  readonly stallMs?: number;
  /**
   * Bytes of a request or gRPC message (413). 16 MiB by default; `a2a.maxBodyBytes` overrides it.
   */
  readonly maxBodyBytes?: number;
  /**
   * Open streams of one owner, for each of A2A and the front ends (429): 1,000 by default with
   * `auth`, 5,000 without it, since all callers are then one owner. `a2a.maxStreams` overrides it.
   */
  readonly maxStreamsPerOwner?: number;
  /**
   * Concurrent runs of one owner in this process; further ones wait. Half of `maxRuns` by default.
   */
  readonly maxRunsPerOwner?: number;
  /**
   * Tasks of one owner that wait for a runner; the next one is refused (429). 10,000 by default.
   * The store enforces it, so a `log` that you pass to serve() needs this option itself.
   */
  readonly maxQueuedPerOwner?: number;
  /**
   * Bytes that clients have not read yet, on each listener: long responses, long chunks of streams,
   * traces and blobs. Beyond it, clients that have stopped reading are disconnected; if all of them
   * read, the next long response is 503 (UNAVAILABLE), and a stream with a long chunk is
   * disconnected. A quarter of the heap limit by default, at least 64 MiB.
   */
  readonly maxUnsentBytes?: number;
  /**
   * Bytes of requests over 64 KiB that are still arriving, on each listener. Beyond it, the one
   * that takes longest is refused (503, UNAVAILABLE). An eighth of the heap limit by default, at
   * least 64 MiB.
   */
  readonly maxReceivingBytes?: number;
  /**
   * Concurrent gRPC calls on all connections (RESOURCE_EXHAUSTED); one owner has at most half of
   * them. 20,000 by default.
   */
  readonly maxCalls?: number;
  /** Open gRPC health watches of all clients together (RESOURCE_EXHAUSTED). 1,000 by default. */
  readonly maxWatches?: number;
}

/** The longest delay of a timer. A longer one, such as `Infinity`, would fire immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

const MAX_BODY_BYTES = 16 * 1024 * 1024;

/** Limits whose defaults the runner, the log and the listeners define. */
const ELSEWHERE = [
  'maxRunsPerOwner',
  'maxQueuedPerOwner',
  'maxUnsentBytes',
  'maxReceivingBytes',
] as const;
type Elsewhere = (typeof ELSEWHERE)[number];

/** Every limit that the server enforces, and those of its parts if they are given. */
export type ServerLimits = Required<Omit<ServeLimits, Elsewhere>> & Pick<ServeLimits, Elsewhere>;

/** Fills in the defaults. Throws `invalid` for an unknown name or a value that is not positive. */
export function readLimits(given: ServeLimits = {}, hasAuth = false): ServerLimits {
  const defaults: ServerLimits = {
    maxConnections: 10_000,
    headersMs: 20_000,
    requestMs: 120_000,
    stallMs: 30_000,
    maxBodyBytes: MAX_BODY_BYTES,
    maxStreamsPerOwner: hasAuth ? 1000 : 5000,
    maxCalls: 20_000,
    maxWatches: 1000,
  };
  for (const [name, value] of Object.entries(given) as [string, number | undefined][]) {
    const names = [...Object.keys(defaults), ...ELSEWHERE];
    if (!names.includes(name))
      throw new DuolaneError('invalid', `unknown limit "${name}"; available: ${names.join(', ')}`);
    if (value !== undefined && !(typeof value === 'number' && value > 0))
      throw new DuolaneError(
        'invalid',
        `invalid limits.${name} "${value}": expected a positive number`,
      );
    if (name.endsWith('Ms') && value !== undefined && value > MAX_TIMER_MS)
      throw new DuolaneError(
        'invalid',
        `invalid limits.${name} "${value}": expected at most ${MAX_TIMER_MS}`,
      );
  }
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...defaults, ...(Object.fromEntries(set) as ServeLimits) };
}

/** The limits of bytes in memory, which both listeners have. */
export const byteLimits = ({
  maxUnsentBytes,
  maxReceivingBytes,
}: ServerLimits): Pick<ServeLimits, 'maxUnsentBytes' | 'maxReceivingBytes'> =>
  omitUndefined({ maxUnsentBytes, maxReceivingBytes });
