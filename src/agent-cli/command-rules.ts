import { wildcardFits } from './glob.ts';
import { ANY, parseShell, type ShellWord, type SimpleCommand } from './shell-command.ts';

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
      (fits(pattern, words.map(quote).join(' '), false) || fits(pattern, source, false)),
  );
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
  return fits(pattern, command.trim(), false) || forbids(pattern, command, 0);
}

const MAX_DEPTH = 10;

function forbids(pattern: string, text: string, depth: number): boolean {
  const script = depth > MAX_DEPTH ? undefined : parseShell(text);
  return !script || script.commands.some((command) => forbidsOne(pattern, command, depth));
}

function forbidsOne(pattern: string, { words, source }: SimpleCommand, depth: number): boolean {
  if (fits(pattern, source, false)) return true;
  return startsOf(words).some((start) => {
    const [name, ...args] = start;
    if (name === undefined) return false;
    if (!name.literal) return true;
    const base = name.text.slice(name.text.lastIndexOf('/') + 1);
    const named = [name.text, base].some((text) =>
      [plain, quote].some((write) => fits(pattern, [text, ...args.map(write)].join(' '), true)),
    );
    return named || runsText(pattern, base, args, depth);
  });
}

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

/** A command, and the commands that it starts through a wrapper: `sudo nice rm x`, `rm x`. */
function startsOf(words: readonly ShellWord[]): (readonly ShellWord[])[] {
  const found = [words];
  const [name] = words;
  if (!name?.literal) return found;
  const base = name.text.slice(name.text.lastIndexOf('/') + 1);
  if (base === 'find') {
    words.forEach(({ text }, i) => {
      if (/^-(?:exec|ok)(?:dir)?$/.test(text)) found.push(...startsOf(words.slice(i + 1)));
    });
    return found;
  }
  let ahead = WRAPPERS.get(base);
  if (ahead === undefined) return found;
  // Which options take a word is not known: behind an option, both readings count.
  for (let i = 1; i < words.length; i++) {
    const word = words[i] as ShellWord;
    if (word.literal && (word.text.startsWith('-') || /^\w+=/.test(word.text))) continue;
    found.push(...startsOf(words.slice(i)));
    if (words[i - 1]?.text.startsWith('-')) continue;
    if (ahead-- === 0) break;
  }
  return found;
}

const SHELLS = new Set(['sh', 'ash', 'bash', 'dash', 'ksh', 'mksh', 'rbash', 'yash', 'zsh']);
/** They run text that they are given. */
const TEXT_RUNNERS = new Set(['eval', 'trap', 'env', 'parallel', 'script', 'su', 'watch', 'xargs']);

/** A command that runs a text: `eval`, `sh -c`, `env -S`. */
function runsText(
  pattern: string,
  name: string,
  args: readonly ShellWord[],
  depth: number,
): boolean {
  // From then on a name may mean anything.
  if ((name === 'alias' || name === 'unalias') && args.length > 0) return true;
  const isShell = SHELLS.has(name);
  if (!isShell && !TEXT_RUNNERS.has(name)) {
    // `. file` and `source file`: not our text, unless it is what we write to it.
    return (name === '.' || name === 'source') && args.some(isStream);
  }
  if (isShell) {
    const script = args.find(({ text }) => !/^[-+]/.test(text));
    // It reads commands from its input, or from what is piped to it.
    if (!script || isStream(script)) return true;
    if (!args.some(({ text }) => /^[-+]\w*c/.test(text))) return false;
  }
  if (name === 'eval') {
    if (args.some(({ literal }) => !literal)) return true;
    return args.length > 0 && forbids(pattern, args.map(plain).join(' '), depth + 1);
  }
  return args.some(({ text, literal }) => {
    if (!literal) return isShell || name === 'trap';
    if (text === '' || text === '-') return false;
    const texts = text.startsWith('-')
      ? [text.slice(2), text.slice(text.indexOf('=') + 1)].filter((part) => /\s/.test(part))
      : isShell || name === 'trap' || /\s/.test(text)
        ? [text]
        : [];
    return texts.some((part) => forbids(pattern, part, depth + 1));
  });
}

const isStream = ({ text, literal }: ShellWord): boolean =>
  !literal || text === '-' || /^\/(?:dev|proc)\//.test(text);
