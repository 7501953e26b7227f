/** Sessions that were ended before their time. */
export interface Revocations {
  /** `until`: when the session would have expired (Unix ms); the entry may be forgotten then. */
  revoke(id: string, until: number): Promise<void> | void;
  /** `since`: when the session began (Unix ms). What it throws refuses the request. */
  isRevoked(id: string, since: number): Promise<boolean> | boolean;
}

const MAX_REVOKED = 10_000;

/**
 * Revocations in the memory of this process. The list has a limit. When it is full, every session that
 * began before that moment counts as revoked: more people sign in again than necessary, but no
 * revoked session comes back.
 */
export function memoryRevocations(
  now: () => number = Date.now,
  maxRevoked: number = MAX_REVOKED,
): Revocations {
  const revoked = new Map<string, number>();
  let allBefore = -Infinity;
  return {
    revoke(id, until) {
      if (revoked.size >= maxRevoked)
        for (const [each, end] of revoked) if (end <= now()) revoked.delete(each);
      if (revoked.size >= maxRevoked) {
        allBefore = now();
        revoked.clear();
      }
      revoked.set(id, until);
    },
    isRevoked: (id, since) => revoked.has(id) || since <= allBefore,
  };
}
