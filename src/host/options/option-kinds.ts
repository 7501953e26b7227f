import { DuolaneError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import type { QueryOptions } from './options.ts';
import { describeValue } from './describe-value.ts';

const isText = (value: unknown): value is string => typeof value === 'string';
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);
const isFunction = (value: unknown): boolean => typeof value === 'function';
const isNumber = (value: unknown): value is number => typeof value === 'number' && value > 0;
const isPreset = (value: unknown): boolean =>
  isObject(value) && value['type'] === 'preset' && value['preset'] === 'claude_code';
const isCustomPrompt = (value: unknown): boolean =>
  isObject(value) &&
  value['type'] === 'custom' &&
  (isText(value['prompt']) || isTexts(value['prompt']));
const has = (value: unknown, ...methods: readonly string[]): boolean =>
  isObject(value) && methods.every((name) => isFunction(value[name]));

/**
 * The longest delay that `setTimeout` supports, about 24 days. It fires immediately for a longer
 * one.
 */
const MAX_MS = 2 ** 31 - 1;

interface Kind {
  /** Completes the message "<option> must be …". */
  readonly what: string;
  readonly is: (value: unknown) => boolean;
}

const kind = (what: string, is: (value: unknown) => boolean): Kind => ({ what, is });

const TEXT = kind('a string', isText);
const TEXTS = kind("an array of strings, e.g. ['one', 'two']", isTexts);
const FLAG = kind('true or false', (value) => typeof value === 'boolean');
const NUMBER = kind('a positive number', isNumber);
const COUNT = kind('an integer of at least 1', (value) => isNumber(value) && value % 1 === 0);
const MS = kind(
  `a positive number of at most ${MAX_MS}`,
  (value) => isNumber(value) && value <= MAX_MS,
);
const FUNCTION = kind('a function', isFunction);
const OBJECT = kind('an object', isObject);
const ANY = kind('', () => true);

/**
 * Every option and the values that it accepts. The `Record` type makes the compiler report a
 * missing option.
 */
export const KINDS: Readonly<Record<keyof QueryOptions, Kind>> = {
  abortController: kind(
    'an AbortController',
    (value) => isObject(value) && has(value['signal'], 'addEventListener'),
  ),
  additionalDirectories: TEXTS,
  agent: TEXT,
  agentProgressSummaries: FLAG,
  agents: kind(
    'an object of agents by name',
    (value) => isObject(value) && Object.values(value).every(isObject),
  ),
  allowDangerouslySkipPermissions: FLAG,
  allowedTools: TEXTS,
  approvalEdits: FLAG,
  ask: FUNCTION,
  betas: TEXTS,
  canUseTool: FUNCTION,
  continue: FLAG,
  cwd: TEXT,
  debug: FLAG,
  debugFile: TEXT,
  disallowedTools: TEXTS,
  diskBytes: NUMBER,
  effort: kind('low, medium, high, xhigh or max', (value) =>
    ['low', 'medium', 'high', 'xhigh', 'max'].includes(value as string),
  ),
  enableFileCheckpointing: FLAG,
  env: OBJECT,
  executable: TEXT,
  executableArgs: TEXTS,
  exitMs: MS,
  extraArgs: kind(
    'an object of strings, or null for a bare flag, by names without dashes',
    (value) =>
      isObject(value) &&
      Object.entries(value).every(
        ([name, each]) => !name.startsWith('-') && (isText(each) || each === null),
      ),
  ),
  fallbackModel: TEXT,
  forkSession: FLAG,
  forwardSubagentText: FLAG,
  graceMs: MS,
  hooks: kind(
    'an object of events, each an array of { matcher?, hooks: [function] }',
    (value) =>
      isObject(value) &&
      Object.values(value).every(
        (matchers) =>
          Array.isArray(matchers) &&
          matchers.every(
            (matcher) =>
              isObject(matcher) &&
              Array.isArray(matcher['hooks']) &&
              matcher['hooks'].every(isFunction),
          ),
      ),
  ),
  includeHookEvents: FLAG,
  includePartialMessages: FLAG,
  inheritEnv: kind('true, false or an array of names', (value) => FLAG.is(value) || isTexts(value)),
  interruptMs: MS,
  killMs: MS,
  lanes: kind("'message' or 'both'", (value) => value === 'message' || value === 'both'),
  loadTimeoutMs: MS,
  logger: kind('an object with debug, info, warn and error', (value) =>
    has(value, 'debug', 'info', 'warn', 'error'),
  ),
  managedSettings: OBJECT,
  maxBudgetUsd: NUMBER,
  maxLineBytes: NUMBER,
  maxThinkingTokens: kind('a number', (value) => typeof value === 'number' && value >= 0),
  maxTurns: COUNT,
  mcpServers: kind('an object of servers by name', isObject),
  memoryBytes: NUMBER,
  model: TEXT,
  onElicitation: FUNCTION,
  onFrame: FUNCTION,
  onUserDialog: FUNCTION,
  oneshot: FLAG,
  outputFormat: kind(
    "{ type: 'json_schema', schema } with plain JSON Schema; convert a zod schema with z.toJSONSchema()",
    (value) => isObject(value) && value['type'] === 'json_schema' && isJsonSchema(value['schema']),
  ),
  pathToClaudeCodeExecutable: kind('the path of a CLI', (value) => isText(value) && value !== ''),
  permissionMode: TEXT,
  permissionPromptToolName: TEXT,
  permissionPrompts: kind("'host' or 'none'", (value) => value === 'host' || value === 'none'),
  perTaskStopAffordance: FLAG,
  persistSession: FLAG,
  planModeInstructions: TEXT,
  plugins: kind(
    "an array of { type: 'local', path }",
    (value) =>
      Array.isArray(value) && value.every((each) => isObject(each) && isText(each['path'])),
  ),
  pluginDelivery: kind("'argv' or 'initialize'", (value) =>
    ['argv', 'initialize'].includes(value as string),
  ),
  projectConfigRoot: TEXT,
  promptSuggestions: FLAG,
  readyMs: MS,
  resume: TEXT,
  resumeDropsTurn: TEXT,
  resumeSessionAt: TEXT,
  sandbox: OBJECT,
  sessionId: TEXT,
  sessionStore: kind('an object with append and load', (value) => has(value, 'append', 'load')),
  sessionStoreFlush: ANY,
  settingSources: TEXTS,
  settings: kind('a path, a JSON string or an object', (value) => isText(value) || isObject(value)),
  skills: kind("an array of names, or 'all'", (value) => value === 'all' || isTexts(value)),
  spawnClaudeCodeProcess: FUNCTION,
  stall: kind(
    'false, or { afterMs } in milliseconds',
    (value) => value === false || (isObject(value) && MS.is(value['afterMs'])),
  ),
  stderr: FUNCTION,
  streamCloseTimeoutMs: NUMBER,
  strictMcpConfig: FLAG,
  supportedDialogKinds: TEXTS,
  systemPrompt: kind(
    "a string, an array of strings, { type: 'preset', preset: 'claude_code', append? } or { type: 'custom', prompt }",
    (value) => isText(value) || isTexts(value) || isPreset(value) || isCustomPrompt(value),
  ),
  taskBudget: kind('{ total }', (value) => isObject(value) && isNumber(value['total'])),
  thinking: kind(
    "{ type: 'adaptive' | 'enabled' | 'disabled' }",
    (value) =>
      isObject(value) && ['adaptive', 'enabled', 'disabled'].includes(value['type'] as string),
  ),
  title: TEXT,
  toolAliases: OBJECT,
  toolConfig: OBJECT,
  tools: kind(
    "an array of names, [] for no tools, or { type: 'preset', preset: 'claude_code' }",
    (value) => isTexts(value) || isPreset(value),
  ),
  trace: TEXT,
  transport: FUNCTION,
  verbatimPrompts: FLAG,
};

/**
 * Throws `invalid` for an option with a value of the wrong type, or with a misspelt name. Other
 * members are ignored, as in the official SDK: programs pass objects that have members of their
 * own.
 */
export function checkOptionKinds(options: QueryOptions): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    const known = (KINDS as Readonly<Record<string, Kind>>)[name];
    if (!known) checkSpelling(name);
    else if (!known.is(value)) throw wrong(name, known, value);
  }
}

function wrong(name: string, { what }: Kind, value: unknown): DuolaneError {
  return new DuolaneError('invalid', `${name} must be ${what}, got ${describeValue(value)}`);
}

/** The letters of a name without case and plural, so that `allowed_tool` matches `allowedTools`. */
const letters = (name: string): string => name.toLowerCase().replace(/[^a-z]|s$/g, '');

function checkSpelling(name: string): void {
  const meant = Object.keys(KINDS).find((each) => letters(each) === letters(name));
  if (meant !== undefined)
    throw new DuolaneError('invalid', `unknown option "${name}"; did you mean "${meant}"?`);
}

/**
 * Whether a value is plain JSON Schema and not a schema object of a library, which would be sent to
 * the CLI as garbage. zod also adds a `~standard` to the JSON Schema that it creates, but hides it;
 * a schema object lists it among its keys.
 */
function isJsonSchema(value: unknown): boolean {
  if (!isObject(value)) return false;
  const isLiteral = [Object.prototype, null].includes(Object.getPrototypeOf(value));
  return isLiteral && !Object.keys(value).includes('~standard');
}
