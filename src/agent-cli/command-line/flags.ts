import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';

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

/** What the command line said, checked; nothing in it has been read from disk or network yet. */
export interface AgentFlags {
  readonly help: boolean;
  readonly version: boolean;
  readonly print: boolean;
  /** Free words: the question of `-p`. */
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
  /** `stdio`: ask the host. */
  readonly permissionPromptTool: string | undefined;
  readonly allowedTools: readonly string[];
  readonly disallowedTools: readonly string[];
  /** Names of built-in tools; `default` is all of them. */
  readonly tools: readonly string[];
  /** Each is JSON or a path; in the order given. */
  readonly mcpConfig: readonly string[];
  readonly settings: string | undefined;
  /** Whose settings files are read: user, project, local. */
  readonly settingSources: readonly string[];
  /** Rules of the operator, JSON or a path. */
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
  /** What guards something and is not in force: nothing may run. One sentence each. */
  readonly refused: readonly string[];
  /** What was asked for and is not done, one sentence each, for stderr and the message lane. */
  readonly notes: readonly string[];
}

/** How many words a flag takes: none, one, as many as follow, or one if it does not look like a flag. */
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

/** Flags of the official SDKs that mean nothing here: taken, so that the SDK can drive us, and noted. */
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

/** Flags without which the run would be another than was asked for; with the reason and the fix. */
const REFUSED: Readonly<Record<string, Arity>> = { 'resume-drops-turn': 'one' };

const SHORT: Readonly<Record<string, string>> = {
  p: 'print',
  c: 'continue',
  r: 'resume',
  h: 'help',
  v: 'version',
};

interface Words {
  readonly values: ReadonlyMap<string, readonly string[]>;
  readonly free: readonly string[];
  readonly unknown: readonly string[];
}

/** `--flag=value`, `--flag value`, camel or kebab case, `-p`; `--` ends the flags. */
function readWords(argv: readonly string[]): Words {
  const values = new Map<string, string[]>();
  const free: string[] = [];
  const unknown: string[] = [];
  const words = [...argv];
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    const match = /^--?([A-Za-z][\w-]*)(?:=([\s\S]*))?$/.exec(word);
    if (word === '--') {
      free.push(...words.splice(0));
    } else if (!match) {
      free.push(word);
    } else {
      const name = flagName(match[1] ?? '', word.startsWith('--'));
      const arity = SUPPORTED[name] ?? IGNORED[name] ?? REFUSED[name];
      const taken = values.get(name) ?? [];
      values.set(name, taken);
      if (arity === undefined) {
        unknown.push(word);
        if (match[2] === undefined && words[0]?.startsWith('-') === false) words.shift();
      } else if (match[2] !== undefined) taken.push(match[2]);
      else taken.push(...takeValues(name, arity, words));
    }
  }
  return { values, free, unknown };
}

function flagName(written: string, long: boolean): string {
  if (!long) return SHORT[written] ?? written;
  return written.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function takeValues(name: string, arity: Arity, words: string[]): string[] {
  const isValue = (word: string | undefined): boolean =>
    word !== undefined && !/^--?[A-Za-z]/.test(word);
  if (arity === 'none') return [''];
  if (arity === 'optional') return isValue(words[0]) ? [words.shift() as string] : [''];
  if (arity === 'one') {
    const value = words.shift();
    if (value === undefined) throw new DuolaneError('invalid', `--${name} needs a value`);
    return [value];
  }
  const taken: string[] = [];
  while (isValue(words[0])) taken.push(words.shift() as string);
  if (taken.length === 0) throw new DuolaneError('invalid', `--${name} needs a value`);
  return taken;
}

/**
 * The command line, both spellings, as the official TypeScript and Python SDKs write it. A flag
 * that we do not support is noted, never refused; a value that makes no sense throws `invalid`
 * with a sentence for the person who typed it.
 */
export function parseFlags(argv: readonly string[]): AgentFlags {
  const { values, free, unknown } = readWords(argv);
  const has = (name: string): boolean => values.has(name);
  const last = (name: string): string | undefined => values.get(name)?.at(-1);
  const list = (name: string): string[] =>
    (values.get(name) ?? []).flatMap(splitList).filter((item) => item !== '');
  const notes = [
    ...[...values.keys()]
      .filter((name) => name in IGNORED)
      .map((name) => `--${name} is not supported and was ignored`),
    ...unknown.map((word) => `${word} is not a flag of this program and was ignored`),
  ];
  const bypass = has('dangerously-skip-permissions');
  const asked = bypass ? 'bypassPermissions' : (last('permission-mode') ?? 'default');
  // A model that judges calls is the vendor's; to ask is the safe way to do without.
  const mode = asked === 'auto' ? 'default' : asked;
  if (asked === 'auto')
    notes.push(
      '--permission-mode=auto is not supported: as default, calls that no rule allows are asked about',
    );
  const allowBypass = bypass || has('allow-dangerously-skip-permissions');
  if (!isPermissionMode(mode)) throw badChoice('permission-mode', mode, PERMISSION_MODES);
  if (mode === 'bypassPermissions' && !allowBypass) {
    throw new DuolaneError(
      'invalid',
      '--permission-mode=bypassPermissions also needs --allow-dangerously-skip-permissions',
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
    prompt: free.length > 0 ? free.join(' ') : undefined,
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
      .map((name) => `--${name} is not supported by duolane-agent; leave it out`),
    notes,
  };
  check(flags);
  return flags;
}

function check(flags: AgentFlags): void {
  const { inputFormat, outputFormat, permissionPromptTool, sessionId } = flags;
  if (inputFormat === 'stream-json' && outputFormat !== 'stream-json') {
    throw new DuolaneError(
      'invalid',
      `--input-format=stream-json needs --output-format=stream-json, got ${outputFormat}`,
    );
  }
  if (outputFormat === 'stream-json' && !flags.verbose) {
    throw new DuolaneError('invalid', '--output-format=stream-json needs --verbose');
  }
  if (permissionPromptTool !== undefined && permissionPromptTool !== 'stdio') {
    throw new DuolaneError(
      'invalid',
      `--permission-prompt-tool must be stdio (ask the host), got ${permissionPromptTool}`,
    );
  }
  if (sessionId !== undefined && !UUID.test(sessionId)) {
    throw new DuolaneError('invalid', `--session-id must be a UUID, got ${sessionId}`);
  }
  if (sessionId !== undefined && (flags.resume || flags.continue) && !flags.forkSession) {
    throw new DuolaneError(
      'invalid',
      '--session-id with --resume or --continue also needs --fork-session',
    );
  }
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * `a,b c(d, e)`: commas and spaces part the items, but not inside parentheses. A parenthesis that is
 * never closed keeps the rest of the text: `Bash(git *` parted at its space would be the rule `Bash`,
 * for every command. `parseRule` refuses it.
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
  new DuolaneError('invalid', `--${name} must be one of ${choices.join(', ')}, got ${value}`);

function number(
  name: string,
  text: string | undefined,
  { integer = false, min }: { readonly integer?: boolean; readonly min: number },
): number | undefined {
  if (text === undefined || text === '') return undefined;
  const value = Number(text);
  if (!Number.isFinite(value) || value < min || (integer && !Number.isInteger(value))) {
    const kind = integer ? 'a whole number' : 'a number';
    throw new DuolaneError('invalid', `--${name} must be ${kind} of at least ${min}, got ${text}`);
  }
  return value;
}

function schema(text: string | undefined): JsonObject | undefined {
  if (text === undefined || text === '') return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // Said below.
  }
  throw new DuolaneError(
    'invalid',
    `--json-schema must be a JSON object, got ${text.slice(0, 60)}`,
  );
}
