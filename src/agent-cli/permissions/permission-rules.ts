import { DuolaneError } from '../../errors.ts';
import { allowsCommand, forbidsCommand } from './command-rules.ts';
import { wildcardFits } from './glob-pattern.ts';
import { allowsPath, forbidsPath, type TouchedPath } from './path-rules.ts';

/** A permission rule such as `Read`, `mcp__calc__*`, `Bash(git *)` or `Edit(src/**)`. */
export interface PermissionRule {
  readonly tool: string;
  readonly content: string | undefined;
}

/** Parses a rule. Throws `invalid`: a misspelt deny rule must not be ignored without an error. */
export function parseRule(text: string): PermissionRule {
  const match = /^([^()]+)\(([\s\S]*)\)$/.exec(text.trim());
  if (!match) {
    if (text.trim() === '' || /[()]/.test(text))
      throw new DuolaneError(
        'invalid',
        `invalid permission rule "${text}": expected Tool or Tool(pattern)`,
      );
    return { tool: text.trim(), content: undefined };
  }
  const content = match[2]?.trim();
  return {
    tool: (match[1] ?? '').trim(),
    content: content === '' || content === '*' ? undefined : content,
  };
}

export const formatRule = ({ tool, content }: PermissionRule): string =>
  content === undefined ? tool : `${tool}(${content})`;

/** The facts about a call that a rule is matched with. */
export interface Candidate {
  /** The name that the model uses. */
  readonly tool: string;
  /** Deny and ask rules of this tool apply, too: `Grep` reads what `Read` reads. */
  readonly alsoAs?: string | undefined;
  /**
   * Deny and ask rules of these tools that name a path apply, too: `Write` changes what `Edit`
   * does.
   */
  readonly pathsAs?: readonly string[] | undefined;
  /** The shell command of `Bash`. */
  readonly command?: string | undefined;
  /** The path of a file tool. */
  readonly path?: TouchedPath | undefined;
}

/**
 * Whether an allow rule covers a call. A rule without parentheses covers every call of its tools
 * (`*` is a wildcard, `mcp__server` covers all tools of that server). A rule with parentheses
 * covers a command if every part of it matches, so that `Bash(git *)` does not allow `git status;
 * rm -rf .`, and a file if its real path matches.
 */
export function allows(rule: PermissionRule, { tool, command, path }: Candidate): boolean {
  if (!matchesName(rule.tool, tool)) return false;
  if (rule.content === undefined) return true;
  if (command !== undefined) return allowsCommand(rule.content, command);
  return path !== undefined && allowsPath(rule.content, path);
}

/**
 * Whether a deny or ask rule covers a call: one matching part of a command is enough, or one
 * matching name of a file. A call that cannot be decided is covered.
 */
export function forbids(rule: PermissionRule, candidate: Candidate): boolean {
  const { tool, alsoAs, pathsAs = [], command, path } = candidate;
  const names = [tool, alsoAs, ...(rule.content === undefined ? [] : pathsAs)];
  const covers = (name: string): boolean =>
    // The name of a server may contain two underscores, so the rule may mean a server or a tool.
    matchesName(rule.tool, name) ||
    (rule.tool.startsWith('mcp__') && name.startsWith(`${rule.tool}__`));
  if (!names.some((name) => name !== undefined && covers(name))) return false;
  if (rule.content === undefined) return true;
  if (command !== undefined) return forbidsCommand(rule.content, command);
  // A tool of a server has no command and no path to match the pattern with: it is covered.
  return path === undefined || forbidsPath(rule.content, path);
}

function matchesName(pattern: string, name: string): boolean {
  if (pattern === name) return true;
  if (/^mcp__[^_*]+(?:_[^_*]+)*$/.test(pattern)) return name.startsWith(`${pattern}__`);
  return pattern.includes('*') && wildcardFits(pattern, name);
}
