/** A list of login sessions that ended before they expired. */
export interface Revocations {
  /** `until` is when the session would have expired (Unix ms); the entry may be dropped then. */
  revoke(id: string, until: number): Promise<void> | void;
  /** `since` is when the session began (Unix ms). If it throws, the request is refused. */
  isRevoked(id: string, since: number): Promise<boolean> | boolean;
}

const MAX_REVOKED = 10_000;

/**
 * Keeps revocations in the memory of this process, with a limit. When the list is full, every
 * session that began before that moment counts as revoked: more people sign in again than
 * necessary, but no revoked session becomes valid again.
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
