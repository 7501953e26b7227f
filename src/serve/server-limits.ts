import { DuolaneError } from '../errors.ts';

/** What one server takes on at most. docs/guides/operations.md has one table of them. */
export interface ServeLimits {
  /** Connections at once on each listener; further ones are closed unanswered. 10,000 by default. */
  readonly maxConnections?: number;
  /** How long a client may take to send the headers of a request (408). 20 s by default. */
  readonly headersMs?: number;
  /** How long a client may take to send a whole request (408), or one gRPC message. 2 minutes by default. */
  readonly requestMs?: number;
  /** How long a client may leave what was sent to it unread before it is cut. 30 s by default. */
  readonly stallMs?: number;
  /** Bytes of one request, or of one gRPC message (413). 16 MiB by default; `a2a.maxBodyBytes` overrules it. */
  readonly maxBodyBytes?: number;
  /**
   * Open streams of one owner, for each of A2A and the front ends (429): 1,000 by default with
   * `auth`, 5,000 without, where everybody is one owner. `a2a.maxStreams` overrules it.
   */
  readonly maxStreamsPerOwner?: number;
  /** Runs of one owner at once in this process; the others wait their turn. Half of `maxRuns` by default. */
  readonly maxRunsPerOwner?: number;
  /**
   * Tasks of one owner that wait for a runner; the next one is refused (429). 10,000 by default. It
   * is a limit of the store, so give it to a `log` of yours yourself.
   */
  readonly maxQueuedPerOwner?: number;
  /** gRPC calls at once on all connections (RESOURCE_EXHAUSTED). 20,000 by default. */
  readonly maxCalls?: number;
  /** Open gRPC health watches of all clients together (RESOURCE_EXHAUSTED). 1,000 by default. */
  readonly maxWatches?: number;
}

/** A timer with a longer time fires at once: with `Infinity`, each client would be cut immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

const MAX_BODY_BYTES = 16 * 1024 * 1024;

/** Limits whose defaults are those of the runner and of the log. */
const ELSEWHERE = ['maxRunsPerOwner', 'maxQueuedPerOwner'] as const;
type Elsewhere = (typeof ELSEWHERE)[number];

/** Every limit that the server itself keeps, and those for others if they are given. */
export type ServerLimits = Required<Omit<ServeLimits, Elsewhere>> & Pick<ServeLimits, Elsewhere>;

/** Every limit, with its default. Throws `invalid` for one that is unknown or no positive number. */
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
