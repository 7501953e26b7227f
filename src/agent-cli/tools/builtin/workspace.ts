import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { isInsideDirectory, realPath } from '../../permissions/path-rules.ts';
import type { Policy } from '../../permissions/permission-policy.ts';
import { isStartupFile } from '../../permissions/startup-files.ts';
import { forbids } from '../../permissions/permission-rules.ts';
import type { Sandbox } from '../../sandbox/bubblewrap.ts';
import type { CallFacts } from '../types.ts';

/** The directories and rules for the built-in tools. */
export interface Workspace {
  readonly cwd: string;
  /**
   * The working directory, then the directories that were granted later. They are real paths,
   * resolved when they were granted: resolving them again for each call would let a command change
   * a link and so choose what is granted.
   */
  directories(): readonly string[];
  /** The current policy. Its deny and ask rules of `Read` apply to every file of a search. */
  policy(): Policy;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The sandbox of commands; without it they run with the permissions of this process. */
  readonly sandbox?: Sandbox | undefined;
}

/** The absolute path of an argument; an empty one means the working directory. */
export const locate = (workspace: Workspace, path: string): string =>
  resolve(workspace.cwd, path || '.');

/** The facts about a call that uses `path`, for the permission rules. */
export function pathFacts(workspace: Workspace, path: string, edit: boolean): CallFacts {
  const { cwd } = workspace;
  const given = locate(workspace, path);
  const real = realPath(given);
  const inside = workspace.directories().some((directory) => isInsideDirectory(directory, real));
  const home = homeOf(workspace);
  const places = { directories: workspace.directories(), home };
  const guarded = edit && [given, real].some((each) => isStartupFile(each, places));
  return {
    path: { cwd, given, real, home },
    edit: edit && inside && !guarded,
    guarded,
    outside: inside ? undefined : real,
    summary: given,
  };
}

/**
 * The home directory. Without the fallback, `Read(~/.ssh)` would have no effect if HOME is not set.
 */
const homeOf = ({ env }: Workspace): string => env['HOME'] || homedir();

/**
 * Returns a test of paths below the folder of a search: whether a deny or ask rule of `tool` or
 * `Read` covers it. `path` is the argument of the call, `root` the real path that is searched; a
 * link that has changed since the permission is not resolved again.
 */
export function hiddenBelow(
  workspace: Workspace,
  path: string,
  root: string,
  tool: string,
): (path: string) => boolean {
  const { cwd } = workspace;
  const home = homeOf(workspace);
  const { deny, ask } = workspace.policy();
  const rules = [...deny, ...ask].filter(({ content }) => content !== undefined);
  const folder = locate(workspace, path);
  // A search follows no links below its root, so the real path needs no system call.
  return (below) => {
    const given = resolve(folder, below);
    const real = resolve(root, below);
    const candidate = { tool, alsoAs: 'Read', path: { cwd, given, real, home } };
    return rules.some((rule) => forbids(rule, candidate));
  };
}
