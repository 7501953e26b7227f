import { DuolaneError } from '../../errors.ts';
import { asObject, isObject, type JsonObject } from '../../json.ts';
import { type AgentFlags, isPermissionMode } from './flags.ts';
import { DEFAULT_RETRY, type RetryPolicy } from '../../event/retry/retry-policy.ts';
import type { TokenUsage } from '../models/types.ts';
import type { Policy } from '../permissions/permission-policy.ts';
import { parseRule } from '../permissions/permission-rules.ts';

/** USD per million tokens. */
export interface Price {
  readonly input: number;
  readonly output: number;
}

/** What `--settings`, the flags and the environment say together. */
export interface Settings {
  readonly policy: Policy;
  readonly directories: readonly string[];
  /** By model name; a model without one costs nothing that we know of. */
  readonly prices: Readonly<Record<string, Price>>;
  readonly retry: RetryPolicy;
  /** Names of secrets in the environment that Bash and stdio servers get; `*` for any ending. */
  readonly passEnv: readonly string[];
  /** The settings object as it was given. */
  readonly given: JsonObject;
}

type Env = Readonly<Record<string, string | undefined>>;

/** JSON text, or the path of a file with it. Throws `invalid`, naming `flag`. */
export async function jsonArgument(flag: string, value: string, cwd: string): Promise<JsonObject> {
  const inline = value.trim().startsWith('{');
  try {
    const text = inline ? value : await readText(value, cwd);
    const parsed: unknown = JSON.parse(text);
    if (isObject(parsed)) return parsed;
    throw new Error('not an object');
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new DuolaneError(
      'invalid',
      `--${flag} must be a JSON object or the path of one: ${why}`,
      { cause },
    );
  }
}

async function readText(path: string, cwd: string): Promise<string> {
  const [{ readFile }, paths] = await Promise.all([
    import('node:fs/promises'),
    import('node:path'),
  ]);
  return readFile(paths.resolve(cwd, path), 'utf8');
}

/** `others` are further settings, of files or of the operator: their permissions are added. */
export function readSettings(
  given: JsonObject,
  flags: AgentFlags,
  env: Env,
  others: readonly JsonObject[] = [],
): Settings {
  const permissions = [given, ...others].map(permissionsOf);
  const all = (name: string): string[] =>
    permissions.flatMap((each) => readNames(`permissions.${name}`, each[name]));
  const defaultMode = permissions
    .map((each) => each['defaultMode'])
    .find((mode) => isPermissionMode(mode));
  const mode =
    flags.permissionMode === 'default' &&
    isPermissionMode(defaultMode) &&
    defaultMode !== 'bypassPermissions'
      ? defaultMode
      : flags.permissionMode;
  return {
    policy: {
      mode,
      allow: [...all('allow'), ...flags.allowedTools].map(parseRule),
      deny: [...all('deny'), ...flags.disallowedTools].map(parseRule),
      ask: all('ask').map(parseRule),
    },
    directories: [...flags.addDirs, ...all('additionalDirectories')],
    prices: readPrices(given, env),
    retry: readRetry(asObject(given['retry']), env),
    passEnv: readNames('passEnv', given['passEnv']),
    given,
  };
}

/** Throws `invalid` for what is no object: a rule in it that denies something would be lost. */
export function permissionsOf(settings: JsonObject): JsonObject {
  const { permissions = {} } = settings;
  if (isObject(permissions)) return permissions;
  throw new DuolaneError('invalid', 'invalid setting "permissions": expected an object');
}

/** A list of texts, or none. Throws `invalid` for anything else. */
export function readNames(name: string, value: unknown): readonly string[] {
  if (value === undefined) return [];
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value;
  throw new DuolaneError('invalid', `invalid setting "${name}": expected a list of names`);
}

function readPrices(given: JsonObject, env: Env): Record<string, Price> {
  let table = asObject(given['prices']);
  if (env['DUOLANE_PRICES']) {
    try {
      table = { ...table, ...asObject(JSON.parse(env['DUOLANE_PRICES'])) };
    } catch (cause) {
      throw new DuolaneError(
        'invalid',
        'DUOLANE_PRICES must be JSON: {"model": {"input": 1, "output": 5}}',
        { cause },
      );
    }
  }
  const prices: Record<string, Price> = {};
  for (const [model, price] of Object.entries(table)) {
    const { input, output } = asObject(price);
    if (typeof input !== 'number' || typeof output !== 'number') {
      throw new DuolaneError(
        'invalid',
        `the price of ${model} must be {"input": n, "output": n}, in USD per million tokens`,
      );
    }
    prices[model] = { input, output };
  }
  return prices;
}

function readRetry(given: JsonObject, env: Env): RetryPolicy {
  const pick = (value: unknown, otherwise: number): number => {
    const number = typeof value === 'string' && value !== '' ? Number(value) : value;
    return typeof number === 'number' && number >= 0 ? number : otherwise;
  };
  return {
    maxRetries: pick(
      env['CLAUDE_CODE_MAX_RETRIES'] ?? given['maxRetries'],
      DEFAULT_RETRY.maxRetries,
    ),
    baseMs: pick(env['DUOLANE_RETRY_BASE_MS'] ?? given['baseMs'], DEFAULT_RETRY.baseMs),
    maxDelayMs: pick(given['maxDelayMs'], DEFAULT_RETRY.maxDelayMs),
  };
}

/** What some tokens cost; 0 without a price. */
export const costOf = (usage: TokenUsage, price: Price | undefined): number =>
  price === undefined
    ? 0
    : ((usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens) *
        price.input +
        usage.output_tokens * price.output) /
      1_000_000;
