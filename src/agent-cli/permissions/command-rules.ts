import { wildcardFits } from './glob-pattern.ts';
import { parseShell, type SimpleCommand } from './shell-command.ts';
import { ANY, type ShellWord } from './shell-reader.ts';

/** Matches a pattern with a command. `git *` and `git:*` also match `git` without arguments. */
function fits(pattern: string, text: string, some: boolean): boolean {
  if (wildcardFits(pattern, text, ANY, some)) return true;
  return pattern.endsWith(' *') && wildcardFits(pattern.slice(0, -2), text, ANY, some);
}

const patternOf = (content: string): string =>
  content.endsWith(':*') ? `${content.slice(0, -2)} *` : content;

/**
 * Whether an allow rule covers a command: the command consists of simple commands only, and each of
 * them matches. A command with a substitution, a redirection, a group or an assignment, and a text
 * that the parser does not understand, is covered only by a rule with exactly the same text.
 */
export function allowsCommand(content: string, command: string): boolean {
  if (command.trim() === content) return true;
  const script = parseShell(command);
  if (!script?.isSimple || script.commands.length === 0) return false;
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
 * Whether a text contains an array index with a substitution. Bash evaluates the index in a
 * variable name that a builtin gets, even if the name is quoted: `test -v 'a[$(rm x)]'` runs `rm`.
 */
function runsIndex(text: string): boolean {
  // A single regular expression for the whole text would take quadratic time for a hostile text.
  return text.split(/\s/).some((part) => {
    const at = part.search(/\w\[/);
    return at >= 0 && /\$\(|`/.test(part.slice(at));
  });
}

/**
 * Writes a word, in quotes if it could be read as several words or as an operator. A quote in it is
 * escaped: otherwise one word `a' 'b` would be written like the two words `'a' 'b'`.
 */
const quote = ({ text, literal }: ShellWord): string =>
  !literal || needsNoQuotes(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/**
 * Whether the shell reads the text as this one word without quotes. At its start, `#` begins a
 * comment and `~` is a folder: a permission for `rm a # b` must not cover `rm a '#' b`.
 */
const needsNoQuotes = (text: string): boolean =>
  /^[\w@%+=:,./^!{}-][\w@%+=:,./~^!{}#-]*$/.test(text) &&
  !(text.includes('{') && /,|\.\./.test(text));

/**
 * Whether a deny or ask rule covers a command: one matching command anywhere in it is enough. Every
 * such rule covers a text that the parser does not understand, and a command whose name is the
 * result of an expansion: it may be the command that the rule guards against.
 */
export function forbidsCommand(content: string, command: string): boolean {
  const pattern = patternOf(content);
  return (
    fits(pattern, command.trim(), false) || forbids({ pattern, remaining: MAX_CHARS }, command)
  );
}

/** The number of characters that are parsed for one command, including texts that it runs. */
const MAX_CHARS = 1024 * 1024;
/** The number of commands that are tried for one command with wrappers. */
const MAX_STARTS = 16;

interface Search {
  readonly pattern: string;
  /** How many characters may still be parsed. When none remain, the rule covers the command. */
  remaining: number;
}

function forbids(search: Search, text: string): boolean {
  search.remaining -= text.length + 1;
  const script = search.remaining < 0 ? undefined : parseShell(text);
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
        [valueOf, quote].some((write) => fits(rule, [text, ...args.map(write)].join(' '), true)),
      );
      return named || runsText(search, base, args);
    })
  );
}

/** The lower-case name of a program without its folder: some file systems ignore case. */
const baseOf = ({ text }: ShellWord): string => text.slice(text.lastIndexOf('/') + 1).toLowerCase();

const valueOf = ({ text }: ShellWord): string => text;

/**
 * Programs that run the command in their arguments, and how many arguments precede that command.
 */
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
 * A command, and the commands that it starts through wrappers: for `sudo nice rm x` also `nice rm
 * x` and `rm x`. A result longer than {@link MAX_STARTS} is incomplete.
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

/**
 * Replaces the words that `find`, `parallel` and `xargs` fill in by {@link ANY}: `{}`, the
 * placeholder of `-I`, and the arguments that they append.
 */
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

/** The positions at which the command of a wrapper may begin. */
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
    // `env` accepts any text before the `=` as a variable name.
    if (word.literal && (word.text.startsWith('-') || word.text.includes('='))) continue;
    found.push(i);
    // The word after an option may be its value or the command, so both readings are followed.
    if (words[i - 1]?.text.startsWith('-')) continue;
    if (ahead-- === 0) break;
  }
  return found;
}

const SHELLS = new Set(
  'sh ash bash csh dash fish hush ksh lksh mksh oksh posh rbash tcsh yash zsh'.split(' '),
);
const RENAMING = new Set(['alias', 'enable', 'hash', 'unalias']);
/** Programs and builtins that run a text in their arguments as a command. */
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

/** Whether a command runs a text (`eval`, `sh -c`, `env -S`) that the rule covers. */
function runsText(search: Search, name: string, args: readonly ShellWord[]): boolean {
  // After an alias is defined, a later name in the text may stand for any command.
  if (RENAMING.has(name) && args.length > 0) return true;
  const isShell = SHELLS.has(name);
  if (!isShell && !TEXT_RUNNERS.has(name)) {
    // `. file` and `source file` run the content of a file, which is not checked here. A stream
    // such as /dev/stdin gets its content from this very command.
    return (name === '.' || name === 'source') && args.some(isStream);
  }
  if (isShell) {
    const script = args.find(
      ({ text }, i) => !/^[-+]/.test(text) && !/^(?:--|[-+]\w*[oO]$)/.test(args[i - 1]?.text ?? ''),
    );
    // Without a script the shell reads commands from stdin, e.g. from a pipe.
    if (!script || isStream(script)) return true;
    if (args.some(({ text }) => /^-[a-zA-Z]*s/.test(text))) return true;
    if (!args.some(({ text }) => /^[-+]\w*c/.test(text))) return false;
  }
  // `env -S` splits its text by rules that differ from those of the shell.
  if (name === 'env' && args.some(({ text }) => /^(?:-[^-]*S|--s)/.test(text))) return true;
  if (name === 'eval') {
    if (args.some(({ literal }) => !literal)) return true;
    return args.length > 0 && forbids(search, args.map(valueOf).join(' '));
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

/** Whether the word may name stdin or a pipe, so that the content of the file is unknown. */
const isStream = ({ text, literal }: ShellWord): boolean =>
  !literal || text === '-' || /^\/(?:dev|proc)\//.test(text);
