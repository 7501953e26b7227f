import { realpathSync, readlinkSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { globMatcher } from './glob-pattern.ts';

/** Where a call reaches: the path as it was given, and the one that it really is. */
export interface TouchedPath {
  readonly cwd: string;
  /** Absolute, as it was given; links are not followed. */
  readonly given: string;
  /** Absolute, all links followed. */
  readonly real: string;
  /** For `~/`. */
  readonly home?: string | undefined;
}

/** After so many links a path is a loop, as it is for the system. */
const MAX_LINKS = 40;

/**
 * A path with all links followed, also where it does not exist: a link to a file that is missing
 * leads where the file would be made.
 */
export function realPath(path: string, links = 0): string {
  try {
    return realpathSync(path);
  } catch {
    // Missing, or not readable: decided by its folder and, for a dangling link, by its target.
  }
  const parent = dirname(path);
  if (parent === path) return path;
  const folder = realPath(parent, links);
  const here = join(folder, basename(path));
  let target: string;
  try {
    target = readlinkSync(here);
  } catch {
    // Not a link, or it does not exist yet.
    return here;
  }
  // A loop cannot be opened either: its own name is as good as any.
  return links >= MAX_LINKS ? here : realPath(resolve(folder, target), links + 1);
}

export function isInsideDirectory(directory: string, path: string): boolean {
  const way = relative(directory, path);
  return way === '' || (!isAbsolute(way) && way !== '..' && !way.startsWith(`..${sep}`));
}

const slashes = (path: string): string => (sep === '/' ? path : path.split(sep).join('/'));
const below = (directory: string, path: string): string | undefined =>
  isInsideDirectory(directory, path) ? slashes(relative(directory, path)) || '.' : undefined;

/**
 * Whether an allow rule covers a path: the real one must fit, wherever the given one seems to be. A
 * pattern that is not absolute starts at the working directory and matches nothing outside of it.
 */
export function allowsPath(content: string, { cwd, real, home }: TouchedPath): boolean {
  const pattern = absolute(content, home);
  if (pattern !== undefined) {
    // The working directory may be written through a link.
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
 * Whether a deny or ask rule covers a path: the given or the real one is enough, and the pattern
 * counts as written and with the links of its own folders followed. One that starts with `**`
 * holds outside of the working directory, too.
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
  // `//etc` is how the official CLI writes it.
  if (content.startsWith('/')) return content.replace(/^\/+/, '/');
  return isAbsolute(content) ? slashes(content) : undefined;
}

/** `a/../b` and `./`: a pattern has only folders to go back over. */
function normalize(pattern: string): string {
  const parts: string[] = [];
  for (const part of pattern.split('/')) {
    if (part === '.' || (part === '' && parts.length > 0)) continue;
    if (part === '..' && parts.length > 1 && !/[*?{]/.test(parts.at(-1) ?? '')) parts.pop();
    else parts.push(part);
  }
  return parts.join('/');
}

/** The pattern with the links of its folders followed, up to its first wildcard. */
function followed(pattern: string): string {
  const parts = pattern.split('/');
  const wild = parts.findIndex((part) => /[*?{]/.test(part));
  const fixed = wild < 0 ? parts : parts.slice(0, wild);
  if (fixed.length < 2) return pattern;
  const folder = realPath(fixed.join('/') || '/');
  return [slashes(folder).replace(/\/$/, ''), ...parts.slice(fixed.length)].join('/');
}

/** The folders that a path is in: `/a` and `/a/b` of `/a/b/c`. */
function foldersOf(path: string): string[] {
  const folders: string[] = [];
  for (let at = path.indexOf('/', 1); at > 0; at = path.indexOf('/', at + 1))
    folders.push(path.slice(0, at));
  return folders;
}

/**
 * Two names for one file where the file system knows no case, or no forms of Unicode: that of macOS,
 * and a mounted folder on Linux. Which one a path is on cannot be seen from its name.
 */
const fold = (text: string): string =>
  text.normalize('NFD').toUpperCase().toLowerCase().normalize('NFD');

/** A pattern that cannot be used fits where a rule guards (`guards`), and nowhere else. */
function test(pattern: string, path: string | undefined, guards: boolean): boolean {
  if (path === undefined) return false;
  try {
    if (!guards) return globMatcher(pattern)(path);
    const guarded = pattern.replace(/(?<=[^/])\/+$/, '');
    // As it is written, too: a letter that becomes two does not fit a `?` any more.
    return [(text: string) => text, fold].some((form) => {
      const fits = globMatcher(form(guarded));
      // A folder that a rule guards is guarded with all that is in it.
      return fits(form(path)) || foldersOf(form(path)).some(fits);
    });
  } catch {
    return guards; // too many choices
  }
}
