import { realpathSync, readlinkSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { globMatcher } from './glob-pattern.ts';

/** The path that a call uses, as given and with all links resolved. */
export interface TouchedPath {
  readonly cwd: string;
  /** Absolute, links not resolved. */
  readonly given: string;
  /** Absolute, all links resolved. */
  readonly real: string;
  /** The directory that `~` stands for. */
  readonly home?: string | undefined;
}

/** After this many links a path counts as a loop, as in the Linux kernel. */
const MAX_LINKS = 40;

/**
 * Resolves all links of a path, also of one that does not exist: a link to a missing file resolves
 * to the path at which a write would create the file.
 */
export function realPath(path: string, links = 0): string {
  try {
    return realpathSync(path);
  } catch {
    // Missing or not readable: resolve the folder and, for a dangling link, its target.
  }
  const parent = dirname(path);
  if (parent === path) return path;
  const folder = realPath(parent, links);
  const here = join(folder, basename(path));
  let target: string;
  try {
    target = readlinkSync(here);
  } catch {
    // The path is not a link, or does not exist yet.
    return here;
  }
  // A loop of links cannot be opened, so its own name may stand for it.
  return links >= MAX_LINKS ? here : realPath(resolve(folder, target), links + 1);
}

export function isInsideDirectory(directory: string, path: string): boolean {
  const steps = relative(directory, path);
  return steps === '' || (!isAbsolute(steps) && steps !== '..' && !steps.startsWith(`..${sep}`));
}

const slashes = (path: string): string => (sep === '/' ? path : path.split(sep).join('/'));
const below = (directory: string, path: string): string | undefined =>
  isInsideDirectory(directory, path) ? slashes(relative(directory, path)) || '.' : undefined;

/**
 * Whether an allow rule covers a path: the real path must match, whatever the given path looks
 * like. A relative pattern starts at the working directory and matches nothing outside of it.
 */
export function allowsPath(content: string, { cwd, real, home }: TouchedPath): boolean {
  const pattern = absolute(content, home);
  if (pattern !== undefined) {
    // The pattern may name the working directory by a path that contains links.
    const inside = pattern.startsWith(`${slashes(cwd)}/`)
      ? pattern.slice(cwd.length + 1)
      : undefined;
    return (
      test(pattern, slashes(real), false) ||
      (inside !== undefined && test(inside, below(realPath(cwd), real), false))
    );
  }
  return test(content, below(realPath(cwd), real), false);
}

/**
 * Whether a deny or ask rule covers a path. It is enough that the given or the real path matches,
 * and the pattern is tried as written and with the links of its folders resolved. A pattern that
 * starts with `**` also applies outside of the working directory.
 */
export function forbidsPath(content: string, touched: TouchedPath): boolean {
  const { cwd, given, real, home } = touched;
  const written = absolute(content, home) ?? slashes(join(cwd, '/')) + content.replace(/^\.\//, '');
  const paths = [slashes(given), slashes(real)];
  const patterns = new Set([normalize(written), followed(normalize(written))]);
  for (const pattern of patterns) if (paths.some((path) => test(pattern, path, true))) return true;
  const relatives = [below(cwd, given), below(realPath(cwd), real)];
  if (relatives.some((path) => test(content, path, true))) return true;
  return content.startsWith('**') && paths.some((path) => test(content, path.slice(1), true));
}

function absolute(content: string, home: string | undefined): string | undefined {
  if ((content === '~' || content.startsWith('~/')) && home)
    return slashes(home) + content.slice(1);
  // The official CLI writes absolute patterns with two slashes: `//etc`.
  if (content.startsWith('/')) return content.replace(/^\/+/, '/');
  return isAbsolute(content) ? slashes(content) : undefined;
}

/** Removes `a/..` and `.` from a pattern; a `..` after a wildcard stays. */
function normalize(pattern: string): string {
  const parts: string[] = [];
  for (const part of pattern.split('/')) {
    if (part === '.' || (part === '' && parts.length > 0)) continue;
    if (part === '..' && parts.length > 1 && !/[*?{]/.test(parts.at(-1) ?? '')) parts.pop();
    else parts.push(part);
  }
  return parts.join('/');
}

/** The pattern with the links of its folders resolved, up to its first wildcard. */
function followed(pattern: string): string {
  const parts = pattern.split('/');
  const wild = parts.findIndex((part) => /[*?{]/.test(part));
  const fixed = wild < 0 ? parts : parts.slice(0, wild);
  if (fixed.length < 2) return pattern;
  const folder = realPath(fixed.join('/') || '/');
  return [slashes(folder).replace(/\/$/, ''), ...parts.slice(fixed.length)].join('/');
}

/** All folders above a path: `/a` and `/a/b` for `/a/b/c`. */
function foldersOf(path: string): string[] {
  const folders: string[] = [];
  for (let at = path.indexOf('/', 1); at > 0; at = path.indexOf('/', at + 1))
    folders.push(path.slice(0, at));
  return folders;
}

/**
 * Folds case and Unicode forms. File systems that ignore them (macOS, some mounted folders on
 * Linux) open one file by several names, and a path does not show which file system it is on.
 * Without the folding, `.ENV` would bypass a rule for `.env`.
 */
const fold = (text: string): string =>
  text.normalize('NFD').toUpperCase().toLowerCase().normalize('NFD');

/**
 * Matches a pattern with a path. `guards`: for a deny or ask rule. A pattern that cannot be
 * compiled then matches everything, and in an allow rule nothing.
 */
function test(pattern: string, path: string | undefined, guards: boolean): boolean {
  if (path === undefined) return false;
  try {
    if (!guards) return globMatcher(pattern)(path);
    const guarded = pattern.replace(/(?<=[^/])\/+$/, '');
    // Try the unfolded form, too: folding may turn one letter into two, which `?` does not match.
    return [(text: string) => text, fold].some((form) => {
      const fits = globMatcher(form(guarded));
      // A rule that guards a folder guards everything in it.
      return fits(form(path)) || foldersOf(form(path)).some(fits);
    });
  } catch {
    return guards; // the pattern has too many alternatives
  }
}
