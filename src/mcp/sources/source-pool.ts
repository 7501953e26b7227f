import { DuolaneError, notFound } from '../../errors.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Abortable } from '../../stream/types.ts';
import { type ConnectSource, LazyConnection } from './lazy-connection.ts';
import type { ToolSource } from '../types.ts';

export interface PoolOptions {
  /** How long a connection without a user stays open; 5 minutes by default. */
  readonly idleMs?: number;
}

/** One use of a shared connection. Disposing releases it; the pool keeps the connection open. */
export interface SourceLease extends AsyncDisposable {
  readonly source: ToolSource;
}

/**
 * Named connections to servers, for agents that start and end. Each server is dialled once, shared
 * by all concurrent users and kept for the next. A lost connection is dialled again by the next
 * lease. Do not share a server that keeps the state of one user.
 */
export interface SourcePool extends AsyncDisposable {
  /**
   * Returns the connection of a server. Throws `not_found` for an unknown name, and the error of
   * the dial.
   */
  lease(name: string, options?: Abortable): Promise<SourceLease>;
  /**
   * Dials the named servers, by default all. Resolves when each is connected or has failed, with
   * the failures by name.
   */
  warm(names?: readonly string[]): Promise<ReadonlyMap<string, DuolaneError>>;
}

interface Member {
  readonly connection: LazyConnection;
  users: number;
  timer: NodeJS.Timeout | undefined;
}

/**
 * Creates a pool. Disposing it closes every connection, also those in use.
 *
 * @example
 * ```ts
 * await using pool = sourcePool({
 *   files: (options) => dialStdio({ command: 'files', args: [], env, ...options }),
 * });
 * await using lease = await pool.lease('files');
 * for await (const tool of lease.source.listTools()) console.log(tool.name);
 * ```
 */
export function sourcePool(
  servers: Readonly<Record<string, ConnectSource>>,
  { idleMs = 300_000 }: PoolOptions = {},
): SourcePool {
  const members = new Map<string, Member>(
    Object.entries(servers).map(([name, connect]) => [
      name,
      { connection: new LazyConnection(connect), users: 0, timer: undefined },
    ]),
  );
  // Starts the idle timer of a connection without users.
  const startIdleTimer = (member: Member): void => {
    if (member.users > 0 || !member.connection.active) return;
    clearTimeout(member.timer);
    // An error of closing is ignored: the connection is unused, and the next lease dials again.
    member.timer = setTimeout(() => void member.connection.release().catch(() => {}), idleMs);
    member.timer.unref();
  };
  const find = (name: string): Member => {
    const member = members.get(name);
    if (member) return member;
    const known = [...members.keys()].join(', ') || 'none';
    throw notFound(`unknown server "${name}"; available: ${known}`);
  };
  return {
    async lease(name, options) {
      const member = find(name);
      clearTimeout(member.timer);
      member.users += 1;
      const release = disposeOnce(() => {
        member.users -= 1;
        startIdleTimer(member);
      });
      try {
        return { source: await member.connection.open(options), [Symbol.asyncDispose]: release };
      } catch (error) {
        await release();
        throw error;
      }
    },
    async warm(names = [...members.keys()]) {
      const failures = new Map<string, DuolaneError>();
      const opened = names.map(async (name) => {
        const member = find(name);
        await member.connection.open().then(
          () => startIdleTimer(member),
          (error: unknown) => failures.set(name, DuolaneError.from(error)),
        );
      });
      await Promise.all(opened);
      return failures;
    },
    [Symbol.asyncDispose]: disposeOnce(async () => {
      for (const { timer } of members.values()) clearTimeout(timer);
      const closing = [...members.values()].map(({ connection }) =>
        connection[Symbol.asyncDispose](),
      );
      await Promise.all(closing);
    }),
  };
}
