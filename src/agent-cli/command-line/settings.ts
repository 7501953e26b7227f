import { DuolaneError, errorMessage } from '../../errors.ts';
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

/** The setting `sampling`: which MCP servers may use the model of the session, and how much. */
export interface SamplingPolicy {
  /** Names of servers; `*` means all. */
  readonly servers: readonly string[];
  /** The limit of requests during one call. */
  readonly maxRequests: number;
  /** The limit of output tokens of one request. */
  readonly maxTokens: number;
}

const SAMPLING_REQUESTS = 10;
const SAMPLING_TOKENS = 4096;

/** The settings of a session, merged from `--settings`, the flags and the environment. */
export interface Settings {
  readonly policy: Policy;
  readonly directories: readonly string[];
  /** By model name. The cost of a model without a price counts as 0. */
  readonly prices: Readonly<Record<string, Price>>;
  readonly retry: RetryPolicy;
  /**
   * Names of secrets in the environment that Bash and stdio servers get; a final `*` is a wildcard.
   */
  readonly passEnv: readonly string[];
  readonly sampling: SamplingPolicy;
  /** The object of `--settings`, unchanged. */
  readonly given: JsonObject;
}

type Env = Readonly<Record<string, string | undefined>>;

/** Reads the value of `flag`: JSON text, or the path of a JSON file. Throws `invalid` otherwise. */
export async function jsonArgument(flag: string, value: string, cwd: string): Promise<JsonObject> {
  const inline = value.trim().startsWith('{');
  try {
    const text = inline ? value : await readText(value, cwd);
    const parsed: unknown = JSON.parse(text);
    if (isObject(parsed)) return parsed;
    throw new Error('the JSON is not an object');
  } catch (cause) {
    throw new DuolaneError(
      'invalid',
      `invalid --${flag}: expected a JSON object or the path of one: ${errorMessage(cause)}`,
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

/**
 * Merges the settings of a session. `others` are those of settings files and of the operator: only
 * their permissions count.
 */
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
  // Settings never start the mode `bypassPermissions`: it needs its own flag.
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
    sampling: readSampling(given['sampling']),
    given,
  };
}

/** The `permissions` of settings. Throws `invalid` for another type: a deny rule could get lost. */
export function permissionsOf(settings: JsonObject): JsonObject {
  const { permissions = {} } = settings;
  if (isObject(permissions)) return permissions;
  throw new DuolaneError('invalid', 'invalid setting "permissions": expected an object');
}

/** Reads a list of strings; undefined is an empty list. Throws `invalid` for anything else. */
export function readNames(name: string, value: unknown): readonly string[] {
  if (value === undefined) return [];
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value;
  throw new DuolaneError('invalid', `invalid setting "${name}": expected a list of names`);
}

/**
 * Reads `sampling`. Without it no server may use the model: a server chooses the prompt and the
 * number of requests, and the user pays for them. Throws `invalid` for an unknown member.
 */
function readSampling(given: unknown): SamplingPolicy {
  const expected = 'expected {"servers": [names], "maxRequests": n, "maxTokens": n}';
  if (given !== undefined && !isObject(given))
    throw new DuolaneError('invalid', `invalid setting "sampling": ${expected}`);
  const { servers, maxRequests, maxTokens, ...others } = asObject(given);
  const [unknown] = Object.keys(others);
  if (unknown !== undefined)
    throw new DuolaneError('invalid', `unknown setting "sampling.${unknown}"; ${expected}`);
  const limit = (name: string, value: unknown, otherwise: number): number => {
    if (value === undefined) return otherwise;
    if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
    throw new DuolaneError('invalid', `invalid setting "sampling.${name}": expected 1 or more`);
  };
  return {
    servers: readNames('sampling.servers', servers),
    maxRequests: limit('maxRequests', maxRequests, SAMPLING_REQUESTS),
    maxTokens: limit('maxTokens', maxTokens, SAMPLING_TOKENS),
  };
}

/** Whether a server may use the model of the session. */
export const maySample = ({ servers }: SamplingPolicy, server: string): boolean =>
  servers.some((name) => name === '*' || name === server);

function readPrices(given: JsonObject, env: Env): Record<string, Price> {
  let table = asObject(given['prices']);
  if (env['DUOLANE_PRICES']) {
    try {
      table = { ...table, ...asObject(JSON.parse(env['DUOLANE_PRICES'])) };
    } catch (cause) {
      throw new DuolaneError(
        'invalid',
        'invalid DUOLANE_PRICES: expected JSON, e.g. {"model": {"input": 1, "output": 5}}',
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
        `invalid price of model "${model}": expected {"input": n, "output": n}, in USD per million tokens`,
      );
    }
    prices[model] = { input, output };
  }
  return prices;
}

function readRetry(given: JsonObject, env: Env): RetryPolicy {
  /** A number of at least 0, or the default. */
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

/** The cost of these tokens in USD; 0 without a price. */
export const costOf = (usage: TokenUsage, price: Price | undefined): number =>
  price === undefined
    ? 0
    : ((usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens) *
        price.input +
        usage.output_tokens * price.output) /
      1_000_000;
