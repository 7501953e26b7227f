import { wildcardFits } from './glob-pattern.ts';
import { parseShell, type SimpleCommand } from './shell-command.ts';
import { ANY, type ShellWord } from './shell-reader.ts';

/** `git *` and `git:*` also stand for `git` alone. */
function fits(pattern: string, text: string, some: boolean): boolean {
  if (wildcardFits(pattern, text, ANY, some)) return true;
  return pattern.endsWith(' *') && wildcardFits(pattern.slice(0, -2), text, ANY, some);
}

const patternOf = (content: string): string =>
  content.endsWith(':*') ? `${content.slice(0, -2)} *` : content;

/**
 * Whether an allow rule covers a command: every part of it must fit, and it has no other parts than
 * plain commands. Anything else, a substitution, a redirection, a group, an assignment, a text that
 * we cannot read, is covered only by a rule that is that very text.
 */
export function allowsCommand(content: string, command: string): boolean {
  if (command.trim() === content) return true;
  const script = parseShell(command);
  if (!script?.plain || script.commands.length === 0) return false;
  const pattern = patternOf(content);
  return script.commands.every(
    ({ words, assigns, source }) =>
      !assigns &&
      words[0]?.literal === true &&
      !words.some(({ text }) => runsIndex(text)) &&
      (fits(pattern, words.map(quote).join(' '), false) || fits(pattern, source, false)),
  );
}

/**
 * Bash evaluates the index of an array in a name that a builtin is given, quoted or not:
 * `test -v 'a[$(rm x)]'` runs `rm`.
 */
function runsIndex(text: string): boolean {
  // Not one expression for all: it would take the square of the length of a hostile text.
  return text.split(/\s/).some((part) => {
    const at = part.search(/\w\[/);
    return at >= 0 && /\$\(|`/.test(part.slice(at));
  });
}

/** A word that could be read as two, or as a sign, keeps quotes. */
const quote = ({ text, literal }: ShellWord): string =>
  !literal || /^[\w@%+=:,./~^!{}#-]+$/.test(text) ? text : `'${text}'`;

/**
 * Whether a deny or ask rule covers a command: one command anywhere in it is enough. What we cannot
 * read, and a command whose name only the shell knows, is covered by every such rule.
 */
export function forbidsCommand(content: string, command: string): boolean {
  const pattern = patternOf(content);
  return fits(pattern, command.trim(), false) || forbids({ pattern, left: MAX_CHARS }, command);
}

/** How many characters are read for one command, the texts that it runs included. */
const MAX_CHARS = 1024 * 1024;
/** How many ways to read the wrappers of one command are followed. */
const MAX_STARTS = 16;

interface Search {
  readonly pattern: string;
  /** Characters that may still be read: beyond them, the rule covers what is left. */
  left: number;
}

function forbids(search: Search, text: string): boolean {
  search.left -= text.length + 1;
  const script = search.left < 0 ? undefined : parseShell(text);
  return !script || script.commands.some((command) => forbidsOne(search, command));
}

function forbidsOne(search: Search, { words, source }: SimpleCommand): boolean {
  const { pattern } = search;
  if (fits(pattern, source, false) || runsIndex(source)) return true;
  const starts = startsOf(words);
  return (
    starts.length > MAX_STARTS ||
    starts.some((start) => {
      const [name, ...args] = start;
      if (name === undefined) return false;
      if (!name.literal) return true;
      const base = baseOf(name);
      const named = [
        [pattern, name.text],
        [pattern, name.text.slice(name.text.lastIndexOf('/') + 1)],
        [pattern.replace(/^\S+/, (first) => first.toLowerCase()), base],
      ].some(([rule = '', text = '']) =>
        [plain, quote].some((write) => fits(rule, [text, ...args.map(write)].join(' '), true)),
      );
      return named || runsText(search, base, args);
    })
  );
}

/** The name of a program without its folder; in some file systems, case makes no difference. */
const baseOf = ({ text }: ShellWord): string => text.slice(text.lastIndexOf('/') + 1).toLowerCase();

const plain = ({ text }: ShellWord): string => text;

/** Programs that start the command in their arguments, with how many words stand in front of it. */
const WRAPPERS: ReadonlyMap<string, number> = new Map([
  ...[
    'builtin',
    'command',
    'chronic',
    'doas',
    'env',
    'exec',
    'ionice',
    'nice',
    'nohup',
    'parallel',
    'setarch',
    'setpriv',
    'setsid',
    'stdbuf',
    'strace',
    'sudo',
    'time',
    'unbuffer',
    'unshare',
    'watch',
    'xargs',
    'busybox',
    'toybox',
    'nsenter',
    'prlimit',
    'runuser',
    'systemd-run',
    'pkexec',
    'torsocks',
    'proxychains',
    'caffeinate',
    'faketime',
    'eatmydata',
    'fakeroot',
    'gdb',
    'ltrace',
    'catchsegv',
    'linux32',
    'linux64',
  ].map((name): [string, number] => [name, 0]),
  ...['chroot', 'chrt', 'flock', 'su', 'taskset', 'timeout', 'script', 'ssh-agent'].map(
    (name): [string, number] => [name, 1],
  ),
]);

/**
 * A command, and the commands that it starts through a wrapper: `sudo nice rm x`, `nice rm x`, `rm x`.
 * More than {@link MAX_STARTS}: there are too many to follow.
 */
function startsOf(written: readonly ShellWord[]): (readonly ShellWord[])[] {
  const words = withPlaceholders(written);
  const starts = new Set([0]);
  for (const start of starts) {
    for (const next of startedBy(words, start)) starts.add(next);
    if (starts.size > MAX_STARTS) break;
  }
  return [...starts].map((start) => words.slice(start));
}

const FILLED = new Set(['find', 'parallel', 'xargs']);

/** Programs that put words of their own into a command: `{}`, the sign of `-I`, and more at its end. */
function withPlaceholders(words: readonly ShellWord[]): readonly ShellWord[] {
  if (!words.some((word) => FILLED.has(baseOf(word)))) return words;
  const signs = new Set(['{}']);
  words.forEach(({ text }, i) => {
    const sign = /^(?:-[Ii]|--replace=?)(.*)$/s.exec(text)?.[1];
    if (sign !== undefined) signs.add(sign || (words[i + 1]?.text ?? '{}'));
  });
  const filled = words.map((word) => {
    let { text } = word;
    for (const sign of signs) if (sign !== '') text = text.split(sign).join(ANY);
    return text === word.text ? word : { ...word, text, literal: false };
  });
  return [...filled, { text: ANY, literal: false, quoted: false }];
}

/** Where the command of a wrapper may begin. */
function startedBy(words: readonly ShellWord[], start: number): number[] {
  const found: number[] = [];
  const name = words[start];
  if (!name?.literal) return found;
  const base = baseOf(name);
  let ahead = WRAPPERS.get(base);
  for (let i = start + 1; i < words.length && found.length <= MAX_STARTS; i++) {
    const word = words[i] as ShellWord;
    if (base === 'find') {
      if (/^-(?:exec|ok)(?:dir)?$/.test(words[i - 1]?.text ?? '')) found.push(i);
      continue;
    }
    if (ahead === undefined) break;
    // `env` takes any text in front of the `=` for a name.
    if (word.literal && (word.text.startsWith('-') || word.text.includes('='))) continue;
    found.push(i);
    // Which options take a word is not known: behind an option, both readings count.
    if (words[i - 1]?.text.startsWith('-')) continue;
    if (ahead-- === 0) break;
  }
  return found;
}

const SHELLS = new Set(
  'sh ash bash csh dash fish hush ksh lksh mksh oksh posh rbash tcsh yash zsh'.split(' '),
);
const RENAMING = new Set(['alias', 'enable', 'hash', 'unalias']);
/** They run text that they are given. */
const TEXT_RUNNERS = new Set([
  'eval',
  'env',
  'flock',
  'parallel',
  'runuser',
  'script',
  'sg',
  'su',
  'trap',
  'watch',
  'xargs',
]);

/** A command that runs a text: `eval`, `sh -c`, `env -S`. */
function runsText(search: Search, name: string, args: readonly ShellWord[]): boolean {
  // From then on a name may mean anything.
  if (RENAMING.has(name) && args.length > 0) return true;
  const isShell = SHELLS.has(name);
  if (!isShell && !TEXT_RUNNERS.has(name)) {
    // `. file` and `source file`: not our text, unless it is what we write to it.
    return (name === '.' || name === 'source') && args.some(isStream);
  }
  if (isShell) {
    const script = args.find(
      ({ text }, i) => !/^[-+]/.test(text) && !/^(?:--|[-+]\w*[oO]$)/.test(args[i - 1]?.text ?? ''),
    );
    // It reads commands from its input, or from what is piped to it.
    if (!script || isStream(script)) return true;
    if (args.some(({ text }) => /^-[a-zA-Z]*s/.test(text))) return true;
    if (!args.some(({ text }) => /^[-+]\w*c/.test(text))) return false;
  }
  // It splits a text by rules of its own.
  if (name === 'env' && args.some(({ text }) => /^(?:-[^-]*S|--s)/.test(text))) return true;
  if (name === 'eval') {
    if (args.some(({ literal }) => !literal)) return true;
    return args.length > 0 && forbids(search, args.map(plain).join(' '));
  }
  return args.some(({ text, literal }) => {
    if (!literal) return isShell || name === 'trap';
    if (text === '' || text === '-') return false;
    const texts = text.startsWith('-')
      ? [text.slice(2), text.slice(text.indexOf('=') + 1)].filter((part) => /\s/.test(part))
      : isShell || name === 'trap' || /\s/.test(text)
        ? [text]
        : [];
    return texts.some((part) => forbids(search, part));
  });
}

const isStream = ({ text, literal }: ShellWord): boolean =>
  !literal || text === '-' || /^\/(?:dev|proc)\//.test(text);
