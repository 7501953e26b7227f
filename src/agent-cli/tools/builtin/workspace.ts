import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { isInsideDirectory, realPath } from '../../permissions/path-rules.ts';
import type { Policy } from '../../permissions/permission-policy.ts';
import { forbids } from '../../permissions/permission-rules.ts';
import type { Sandbox } from '../../sandbox/bubblewrap.ts';
import type { CallFacts } from '../types.ts';

/** Where the built-in tools may work. `directories` may grow while the session runs. */
export interface Workspace {
  readonly cwd: string;
  /**
   * The working directory first, then those that were added; real paths, as they were when they
   * were granted. To follow their links again for each call would let a command that changes a link
   * choose what is granted.
   */
  directories(): readonly string[];
  /** Of which the deny and ask rules of `Read` hold for every file that a search looks into. */
  policy(): Policy;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** What encloses commands; without it they run as this process does. */
  readonly sandbox?: Sandbox | undefined;
}

/** The absolute path of an argument. */
export const locate = (place: Workspace, path: string): string => resolve(place.cwd, path || '.');

/** What the permission rules want to know about a call that touches `path`. */
export function pathFacts(place: Workspace, path: string, edit: boolean): CallFacts {
  const { cwd } = place;
  const given = locate(place, path);
  const real = realPath(given);
  const inside = place.directories().some((directory) => isInsideDirectory(directory, real));
  return {
    path: { cwd, given, real, home: homeOf(place) },
    edit: edit && inside,
    outside: inside ? undefined : real,
    summary: given,
  };
}

/** Without `HOME` a rule such as `Read(~/.ssh)` holds all the same. */
const homeOf = ({ env }: Workspace): string => env['HOME'] || homedir();

/** A test of paths below `root`: whether a deny or ask rule of `tool` or `Read` keeps a search away from it. */
export function hiddenBelow(
  place: Workspace,
  root: string,
  tool: string,
): (path: string) => boolean {
  const { cwd } = place;
  const home = homeOf(place);
  const { deny, ask } = place.policy();
  const rules = [...deny, ...ask].filter(({ content }) => content !== undefined);
  const realRoot = realPath(root);
  // A search follows no links below its root, so the real path is known without a look.
  return (path) => {
    const given = resolve(root, path);
    const real = resolve(realRoot, path);
    const candidate = { tool, alsoAs: 'Read', path: { cwd, given, real, home } };
    return rules.some((rule) => forbids(rule, candidate));
  };
}
