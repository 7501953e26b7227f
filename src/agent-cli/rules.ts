/** A permission rule as it is written: `Read`, `mcp__calc__*`, `Bash(git *)`, `Edit(src/**)`. */
export interface Rule {
  readonly tool: string;
  readonly content: string | undefined;
}

export function parseRule(text: string): Rule {
  const match = /^([^(]+)\(([\s\S]*)\)$/.exec(text.trim());
  if (!match) return { tool: text.trim(), content: undefined };
  const content = match[2]?.trim();
  return {
    tool: (match[1] ?? '').trim(),
    content: content === '' || content === '*' ? undefined : content,
  };
}

export const formatRule = ({ tool, content }: Rule): string =>
  content === undefined ? tool : `${tool}(${content})`;

/** What a rule is held against. */
export interface Candidate {
  /** The name towards the model. */
  readonly tool: string;
  /** The shell command of `Bash`. */
  readonly command?: string | undefined;
  /** The path of a file tool, relative to the working directory where it is inside. */
  readonly path?: string | undefined;
}

/**
 * Whether a rule covers a call. A rule without parentheses covers every call of its tools (`*` is a
 * wildcard, `mcp__server` its whole server). One with parentheses covers a command when every part of
 * it matches, so that `Bash(git *)` does not let `git status; rm -rf .` through; with `some` one part
 * is enough, which is what a deny rule wants.
 */
export function covers(rule: Rule, candidate: Candidate, some = false): boolean {
  if (!matchesName(rule.tool, candidate.tool)) return false;
  if (rule.content === undefined) return true;
  if (candidate.command !== undefined) return coversCommand(rule.content, candidate.command, some);
  if (candidate.path !== undefined) return globToRegExp(rule.content).test(candidate.path);
  return false;
}

function matchesName(pattern: string, name: string): boolean {
  if (pattern === name) return true;
  if (/^mcp__[^_*]+(?:_[^_*]+)*$/.test(pattern)) return name.startsWith(`${pattern}__`);
  return pattern.includes('*') && wildcard(pattern).test(name);
}

const escape = (text: string): string => text.replace(/[.+?^${}()|[\]\\]/g, '\\$&');
const wildcard = (pattern: string): RegExp =>
  new RegExp(`^${escape(pattern).replaceAll('*', '[\\s\\S]*')}$`);

function coversCommand(content: string, command: string, some: boolean): boolean {
  const pattern = content.endsWith(':*') ? `${content.slice(0, -2)} *` : content;
  const fits = (part: string): boolean =>
    wildcard(pattern).test(part) || (pattern.endsWith(' *') && part === pattern.slice(0, -2));
  const parts = command
    .split(/&&|\|\||[;|&\n]/)
    .map((part) => part.trim())
    .filter(Boolean);
  if (some) return fits(command.trim()) || parts.some(fits);
  // Substitution and redirection can hide anything: such a command is covered by no pattern.
  if (/[`<>]|\$\(/.test(command)) return command.trim() === content;
  return parts.length > 0 && parts.every(fits);
}

/** `*` stays within a folder, `**` does not, `?` is one character, `{a,b}` a choice. */
export function globToRegExp(glob: string): RegExp {
  const source = glob
    .replace(/^\.\//, '')
    .replace(/\*\*\/|\*\*|\*|\?|\{[^{}]*\}|[.+^$()|[\]\\{}]/g, (token) => {
      if (token === '**/') return '(?:[^/]+/)*';
      if (token === '**') return '[\\s\\S]*';
      if (token === '*') return '[^/]*';
      if (token === '?') return '[^/]';
      if (token.length > 1) return `(?:${token.slice(1, -1).split(',').map(globSource).join('|')})`;
      return `\\${token}`;
    });
  return new RegExp(`^${source}$`);
}

const globSource = (glob: string): string => globToRegExp(glob).source.slice(1, -1);
