import { randomUUID } from 'node:crypto';

/**
 * Creates an id for a task or a context: a UUID of version 7. Ids created one after the other are
 * near each other in an index, so a commit of many new tasks writes few pages. 74 bits are random.
 */
export function uuidV7(): string {
  const now = Date.now();
  if (now !== last.now) {
    const time = now.toString(16).padStart(12, '0');
    last = { now, prefix: `${time.slice(0, 8)}-${time.slice(8)}-7` };
  }
  return last.prefix + randomUUID().slice(15);
}

let last = { now: Number.NaN, prefix: '' };
