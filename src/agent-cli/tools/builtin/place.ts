import { realpathSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import type { CallFacts } from '../types.ts';

/** Where the built-in tools may work. `directories` may grow while the session runs. */
export interface Place {
  readonly cwd: string;
  /** The working directory first, then those that were added. */
  directories(): readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The absolute path of an argument. */
export const locate = (place: Place, path: string): string => resolve(place.cwd, path || '.');

/** Links followed as far as the path exists, so that none leads out unseen. */
function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // A path that does not exist yet is resolved by its nearest parent that does.
    const parent = dirname(path);
    return parent === path ? path : join(real(parent), path.slice(parent.length));
  }
}

export function isInside(directory: string, path: string): boolean {
  const way = relative(real(directory), real(path));
  return way === '' || (!isAbsolute(way) && way !== '..' && !way.startsWith(`..${sep}`));
}

/** What the permission rules want to know about a call that touches `path`. */
export function pathFacts(place: Place, path: string, edit: boolean): CallFacts {
  const full = locate(place, path);
  const inside = place.directories().some((directory) => isInside(directory, full));
  return {
    path: inside ? relative(place.cwd, full).split(sep).join('/') || '.' : full,
    edit: edit && inside,
    outside: inside ? undefined : full,
    summary: full,
  };
}
