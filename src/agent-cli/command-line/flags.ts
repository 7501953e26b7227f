import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { InvalidLine, parseLine } from '../../wire/jsonl.ts';

export const PERMISSION_MODES = [
  'default',
  'acceptEdits',
  'plan',
  'dontAsk',
  'bypassPermissions',
] as const;
export type PolicyMode = (typeof PERMISSION_MODES)[number];

export const isPermissionMode = (value: unknown): value is PolicyMode =>
  PERMISSION_MODES.includes(value as PolicyMode);

export type PrintFormat = 'text' | 'json' | 'stream-json';

/** The validated command line. Files that it names have not been read yet. */
export interface AgentFlags {
  readonly help: boolean;
  readonly version: boolean;
  readonly print: boolean;
  /** The positional arguments: the prompt of `-p`. */
  readonly prompt: string | undefined;
  readonly inputFormat: 'text' | 'stream-json';
  readonly outputFormat: PrintFormat;
  readonly verbose: boolean;
  readonly model: string | undefined;
  readonly fallbackModel: string | undefined;
  readonly maxTurns: number | undefined;
  readonly maxBudgetUsd: number | undefined;
  readonly maxThinkingTokens: number | undefined;
  readonly effort: string | undefined;
  readonly jsonSchema: JsonObject | undefined;
  readonly systemPrompt: string | undefined;
  readonly appendSystemPrompt: string | undefined;
  readonly permissionMode: PolicyMode;
  readonly allowBypass: boolean;
  /** `stdio`: permission requests go to the host. */
  readonly permissionPromptTool: string | undefined;
  readonly allowedTools: readonly string[];
  readonly disallowedTools: readonly string[];
  /** Names of built-in tools; `default` is all of them. */
  readonly tools: readonly string[];
  /** Each item is JSON or a path, in the order of the command line. */
  readonly mcpConfig: readonly string[];
  readonly settings: string | undefined;
  /** Which settings files are read: user, project, local. */
  readonly settingSources: readonly string[];
  /** Settings of the operator: JSON or a path. */
  readonly managedSettings: string | undefined;
  readonly addDirs: readonly string[];
  readonly resume: string | undefined;
  readonly continue: boolean;
  readonly forkSession: boolean;
  readonly resumeSessionAt: string | undefined;
  readonly sessionId: string | undefined;
  readonly persist: boolean;
  readonly mirror: boolean;
  readonly partialMessages: boolean;
  readonly replayUserMessages: boolean;
  /** Errors about flags that would guard something and are not supported: nothing may run. */
  readonly refused: readonly string[];
  /** Notices about flags without effect, for stderr and the message lane. */
  readonly notes: readonly string[];
}

/**
 * How many arguments a flag takes: `none`, `one`, `many` (all up to the next flag), or `optional`
 * (the next argument, unless it is a flag).
 */
type Arity = 'none' | 'one' | 'many' | 'optional';

const SUPPORTED: Readonly<Record<string, Arity>> = {
  help: 'none',
  version: 'none',
  print: 'none',
  'input-format': 'one',
  'output-format': 'one',
  verbose: 'none',
  model: 'one',
  'fallback-model': 'one',
  'max-turns': 'one',
  'max-budget-usd': 'one',
  'max-thinking-tokens': 'one',
  thinking: 'one',
  effort: 'one',
  'json-schema': 'one',
  'system-prompt': 'one',
  'append-system-prompt': 'one',
  'permission-mode': 'one',
  'allow-dangerously-skip-permissions': 'none',
  'dangerously-skip-permissions': 'none',
  'permission-prompt-tool': 'one',
  'permission-prompts': 'one',
  'allowed-tools': 'many',
  'disallowed-tools': 'many',
  tools: 'many',
  'mcp-config': 'many',
  'strict-mcp-config': 'none',
  settings: 'one',
  'setting-sources': 'one',
  'managed-settings': 'one',
  'add-dir': 'many',
  resume: 'optional',
  continue: 'none',
  'fork-session': 'none',
  'resume-session-at': 'one',
  'session-id': 'one',
  'no-session-persistence': 'none',
  'session-mirror': 'none',
  'include-partial-messages': 'none',
  'replay-user-messages': 'none',
};

/**
 * Flags of the official SDKs without effect here. They are accepted, so that those SDKs can drive
 * this CLI, and a notice reports each.
 */
const IGNORED: Readonly<Record<string, Arity>> = {
  'thinking-display': 'one',
  'task-budget': 'one',
  agent: 'one',
  agents: 'one',
  betas: 'many',
  debug: 'optional',
  'debug-file': 'one',
  'debug-to-stderr': 'none',
  'include-hook-events': 'none',
  'project-config-root': 'one',
  'plugin-dir': 'one',
  'plugin-dir-no-mcp': 'one',
  'await-initialize': 'none',
  'await-claim': 'none',
  'system-prompt-file': 'one',
  'append-system-prompt-file': 'one',
  'enable-auth-status': 'none',
};

/**
 * Flags that cannot be ignored: without their effect the session would have a different history.
 */
const REFUSED: Readonly<Record<string, Arity>> = { 'resume-drops-turn': 'one' };

const SHORT: Readonly<Record<string, string>> = {
  p: 'print',
  c: 'continue',
  r: 'resume',
  h: 'help',
  v: 'version',
};

interface Arguments {
  readonly values: ReadonlyMap<string, readonly string[]>;
  readonly positional: readonly string[];
  readonly unknown: readonly string[];
}

/** Reads `--flag=value`, `--flag value`, camel or kebab case, and `-p`; `--` ends the flags. */
function readArguments(argv: readonly string[]): Arguments {
  const values = new Map<string, string[]>();
  const positional: string[] = [];
  const unknown: string[] = [];
  const rest = [...argv];
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    const match = /^--?([A-Za-z][\w-]*)(?:=([\s\S]*))?$/.exec(arg);
    if (arg === '--') {
      positional.push(...rest.splice(0));
    } else if (!match) {
      positional.push(arg);
    } else {
      const name = flagName(match[1] ?? '', arg.startsWith('--'));
      const arity = SUPPORTED[name] ?? IGNORED[name] ?? REFUSED[name];
      const taken = values.get(name) ?? [];
      values.set(name, taken);
      if (arity === undefined) {
        unknown.push(arg);
        // The argument after an unknown flag is most likely its value, not the prompt.
        if (match[2] === undefined && rest[0]?.startsWith('-') === false) rest.shift();
      } else if (match[2] !== undefined) taken.push(match[2]);
      else taken.push(...takeValues(name, arity, rest));
    }
  }
  return { values, positional, unknown };
}

function flagName(written: string, long: boolean): string {
  if (!long) return SHORT[written] ?? written;
  return written.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Removes the values of a flag from the front of `rest` and returns them. */
function takeValues(name: string, arity: Arity, rest: string[]): string[] {
  const isValue = (arg: string | undefined): boolean =>
    arg !== undefined && !/^--?[A-Za-z]/.test(arg);
  if (arity === 'none') return [''];
  if (arity === 'optional') return isValue(rest[0]) ? [rest.shift() as string] : [''];
  const taken: string[] = [];
  if (arity === 'one') taken.push(...rest.splice(0, 1));
  else while (isValue(rest[0])) taken.push(rest.shift() as string);
  if (taken.length === 0) throw new DuolaneError('invalid', `missing value of --${name}`);
  return taken;
}

/**
 * Parses the command line in both spellings, as the official TypeScript and Python SDKs write it. A
 * flag without effect becomes a notice, except for those of `REFUSED`. Throws `invalid` for an
 * invalid value.
 */
export function parseFlags(argv: readonly string[]): AgentFlags {
  const { values, positional, unknown } = readArguments(argv);
  const has = (name: string): boolean => values.has(name);
  const last = (name: string): string | undefined => values.get(name)?.at(-1);
  const list = (name: string): string[] =>
    (values.get(name) ?? []).flatMap(splitList).filter((item) => item !== '');
  const notes = [
    ...[...values.keys()]
      .filter((name) => name in IGNORED)
      .map((name) => `--${name} is not supported and was ignored`),
    ...unknown.map((flag) => `unknown flag "${flag}" was ignored`),
  ];
  const bypass = has('dangerously-skip-permissions');
  const wanted = bypass ? 'bypassPermissions' : (last('permission-mode') ?? 'default');
  // In mode `auto` a model of the vendor decides about calls. Asking the user is the safe
  // substitute.
  const mode = wanted === 'auto' ? 'default' : wanted;
  if (wanted === 'auto')
    notes.push(
      '--permission-mode=auto is not supported; mode "default" is used, which asks before each call that no rule allows',
    );
  const allowBypass = bypass || has('allow-dangerously-skip-permissions');
  if (!isPermissionMode(mode)) throw badChoice('permission-mode', mode, PERMISSION_MODES);
  if (mode === 'bypassPermissions' && !allowBypass) {
    throw new DuolaneError(
      'invalid',
      '--permission-mode=bypassPermissions must be given together with --allow-dangerously-skip-permissions',
    );
  }
  const outputFormat = choice('output-format', last('output-format') ?? 'text', [
    'text',
    'json',
    'stream-json',
  ] as const);
  const flags: AgentFlags = {
    help: has('help'),
    version: has('version'),
    print: has('print'),
    prompt: positional.length > 0 ? positional.join(' ') : undefined,
    inputFormat: choice('input-format', last('input-format') ?? 'text', [
      'text',
      'stream-json',
    ] as const),
    outputFormat,
    verbose: has('verbose'),
    model: last('model') || undefined,
    fallbackModel: last('fallback-model') || undefined,
    maxTurns: number('max-turns', last('max-turns'), { integer: true, min: 1 }),
    maxBudgetUsd: number('max-budget-usd', last('max-budget-usd'), { min: 0 }),
    maxThinkingTokens:
      last('thinking') === 'disabled'
        ? 0
        : number('max-thinking-tokens', last('max-thinking-tokens'), { integer: true, min: 0 }),
    effort: last('effort'),
    jsonSchema: schema(last('json-schema')),
    systemPrompt: last('system-prompt'),
    appendSystemPrompt: last('append-system-prompt'),
    permissionMode: mode,
    allowBypass,
    permissionPromptTool:
      last('permission-prompts') === 'none' ? undefined : last('permission-prompt-tool'),
    allowedTools: list('allowed-tools'),
    disallowedTools: list('disallowed-tools'),
    tools: list('tools'),
    mcpConfig: values.get('mcp-config') ?? [],
    settings: last('settings') || undefined,
    settingSources: list('setting-sources'),
    managedSettings: last('managed-settings') || undefined,
    addDirs: values.get('add-dir') ?? [],
    resume: last('resume') || undefined,
    continue: has('continue') || (has('resume') && !last('resume')),
    forkSession: has('fork-session'),
    resumeSessionAt: last('resume-session-at') || undefined,
    sessionId: last('session-id') || undefined,
    persist: !has('no-session-persistence'),
    mirror: has('session-mirror'),
    partialMessages: has('include-partial-messages'),
    replayUserMessages: has('replay-user-messages'),
    refused: [...values.keys()]
      .filter((name) => name in REFUSED)
      .map((name) => `--${name} is not supported by duolane-agent; remove it`),
    notes,
  };
  const problem = problemOf(flags);
  if (problem !== undefined) throw new DuolaneError('invalid', problem);
  return flags;
}

/** Which flags contradict each other, or have a value that others do not permit. */
function problemOf(flags: AgentFlags): string | undefined {
  const { inputFormat, outputFormat, permissionPromptTool, sessionId } = flags;
  if (inputFormat === 'stream-json' && outputFormat !== 'stream-json')
    return `invalid --output-format "${outputFormat}": expected "stream-json" together with --input-format=stream-json`;
  if (outputFormat === 'stream-json' && !flags.verbose)
    return '--output-format=stream-json must be given together with --verbose';
  if (permissionPromptTool !== undefined && permissionPromptTool !== 'stdio')
    return `invalid --permission-prompt-tool "${permissionPromptTool}": expected "stdio", which asks the host`;
  if (sessionId === undefined) return undefined;
  if (!UUID.test(sessionId)) return `invalid --session-id "${sessionId}": expected a UUID`;
  return (flags.resume || flags.continue) && !flags.forkSession
    ? '--session-id with --resume or --continue must be given together with --fork-session'
    : undefined;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * Splits `a,b c(d, e)` at commas and spaces outside of parentheses. An unclosed parenthesis keeps
 * the rest of the text in its item, and `parseRule` refuses that item. Split at its space,
 * `Bash(git *` would become the rule `Bash`, which applies to every command.
 */
export function splitList(text: string): string[] {
  const items: string[] = [];
  let open = 0;
  let start: number | undefined;
  const end = (at: number): void => {
    if (start !== undefined) items.push(text.slice(start, at).trim());
    start = undefined;
  };
  for (let at = 0; at < text.length; at += 1) {
    const char = text.charAt(at);
    if (char === '(') open += 1;
    else if (char === ')' && open > 0) open -= 1;
    if (open === 0 && /[\s,]/.test(char)) end(at);
    else start ??= at;
  }
  end(text.length);
  return items;
}

function choice<T extends string>(name: string, value: string, choices: readonly T[]): T {
  const found = choices.find((candidate) => candidate === value);
  if (found === undefined) throw badChoice(name, value, choices);
  return found;
}

const badChoice = (name: string, value: string, choices: readonly string[]): DuolaneError =>
  new DuolaneError('invalid', `invalid --${name} "${value}": expected ${choices.join(', ')}`);

function number(
  name: string,
  text: string | undefined,
  { integer = false, min }: { readonly integer?: boolean; readonly min: number },
): number | undefined {
  if (text === undefined || text === '') return undefined;
  const value = Number(text);
  if (!Number.isFinite(value) || value < min || (integer && !Number.isInteger(value))) {
    const kind = integer ? 'a whole number' : 'a number';
    throw new DuolaneError(
      'invalid',
      `invalid --${name} "${text}": expected ${kind} of at least ${min}`,
    );
  }
  return value;
}

function schema(text: string | undefined): JsonObject | undefined {
  if (text === undefined || text === '') return undefined;
  const value = parseLine(text);
  if (!(value instanceof InvalidLine)) return value;
  throw new DuolaneError(
    'invalid',
    `invalid --json-schema "${text.slice(0, 60)}": expected a JSON object`,
  );
}
