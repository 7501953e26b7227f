import { DuolaneError } from '../../errors.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Abortable } from '../../stream/types.ts';
import { type ConnectSource, LazyConnection, dialling } from './lazy-connection.ts';
import type { ToolSource } from '../types.ts';

export interface PoolOptions {
  /** How long a connection that nobody uses is kept; 5 minutes by default. */
  readonly idleMs?: number;
}

/** A shared connection in use; disposing gives it back. */
export interface SourceLease extends AsyncDisposable {
  readonly source: ToolSource;
}

/**
 * Connections to servers by name, for agents that come and go: each server is dialled once, shared
 * by all who use it at the same time, and kept for the next. One that broke is dialled again by the
 * next who asks. Do not share a server that keeps the state of one user.
 */
export interface SourcePool extends AsyncDisposable {
  /** Throws `not_found` for an unknown name, and what the dialling threw. */
  lease(name: string, options?: Abortable): Promise<SourceLease>;
  /** Dials these now, or all; resolves when each is connected or has failed, with the failures. */
  warm(names?: readonly string[]): Promise<ReadonlyMap<string, DuolaneError>>;
}

interface Member {
  readonly connection: LazyConnection;
  users: number;
  timer: NodeJS.Timeout | undefined;
}

/** Disposing closes every connection, used or not. */
export function sourcePool(
  servers: Readonly<Record<string, ConnectSource>>,
  { idleMs = 300_000 }: PoolOptions = {},
): SourcePool {
  const members = new Map<string, Member>(
    Object.entries(servers).map(([name, connect]) => [
      name,
      { connection: new LazyConnection(dialling(connect)), users: 0, timer: undefined },
    ]),
  );
  const rest = (member: Member): void => {
    if (member.users > 0 || !member.connection.active) return;
    clearTimeout(member.timer);
    // A server that does not close well has been left all the same.
    member.timer = setTimeout(() => void member.connection.release().catch(() => {}), idleMs);
    member.timer.unref();
  };
  const find = (name: string): Member => {
    const member = members.get(name);
    if (member) return member;
    const known = [...members.keys()].join(', ') || 'none';
    throw new DuolaneError(
      'not_found',
      `there is no server ${name} in this pool; it has: ${known}`,
    );
  };
  return {
    async lease(name, options) {
      const member = find(name);
      clearTimeout(member.timer);
      member.users += 1;
      const giveBack = disposeOnce(() => {
        member.users -= 1;
        rest(member);
      });
      try {
        return { source: await member.connection.open(options), [Symbol.asyncDispose]: giveBack };
      } catch (error) {
        await giveBack();
        throw error;
      }
    },
    async warm(names = [...members.keys()]) {
      const failures = new Map<string, DuolaneError>();
      const opened = names.map(async (name) => {
        const member = find(name);
        await member.connection.open().then(
          () => rest(member),
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
