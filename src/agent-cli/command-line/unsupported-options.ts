import { DuolaneError } from '../../errors.ts';
import { asArray, asObject, isObject, type JsonObject } from '../../json.ts';
import { isPermissionMode } from './flags.ts';

/**
 * Options that a host may set and this CLI does not support. A guard (hooks, deny rules, a policy)
 * that would have no effect is refused, and nothing runs: the user relies on it. Any other option
 * without effect becomes a notice on the message lane.
 */

/** Supported settings of `--settings`. */
const SETTINGS = new Set(['passEnv', 'permissions', 'prices', 'retry', 'sampling', 'sandbox']);
/** Supported settings of every other source. */
const SETTINGS_ELSEWHERE = new Set(['permissions']);
const PERMISSIONS = new Set(['allow', 'deny', 'ask', 'defaultMode', 'additionalDirectories']);
/** Settings that guard something and are not supported. */
const GUARDS = new Set(['hooks']);

/** Supported fields of `initialize`. */
const INITIALIZE = new Set([
  'subtype',
  'hooks',
  'jsonSchema',
  'systemPrompt',
  'appendSystemPrompt',
  'sdkMcpServers',
  'sdkMcpServerConfigs',
  'sdkMcpServerManifests',
]);

/** Hooks that this CLI never calls, although they could prevent something that it does. */
const UNCALLED_GUARDS = new Set([
  'PermissionRequest',
  'Elicitation',
  'ElicitationResult',
  'PreModelSwitch',
]);

const isSet = (value: unknown): boolean =>
  value !== undefined &&
  value !== null &&
  value !== false &&
  value !== '' &&
  !(Array.isArray(value) && value.length === 0) &&
  !(isObject(value) && Object.keys(value).length === 0);

export const refuseOptions = (what: string, fix: string): DuolaneError =>
  new DuolaneError('unsupported', `${what} is not supported by duolane-agent; ${fix}`);

/** The source of settings, which decides which of them take effect. */
interface SettingsKind {
  /** `--settings`: all supported settings, including the sandbox. Otherwise only permissions. */
  readonly main?: boolean;
  /** `apply_flag_settings`: only the rules of the permissions. */
  readonly rulesOnly?: boolean;
}

/** Returns the names of settings without effect. Throws `unsupported` if one of them is a guard. */
export function ignoredSettings(
  given: JsonObject,
  where: string,
  { main = false, rulesOnly = false }: SettingsKind = {},
): readonly string[] {
  if (!main && isSet(given['sandbox']))
    throw refuseOptions(`sandbox of ${where}`, 'set the option sandbox, or use --settings');
  for (const [name, value] of Object.entries(asObject(given['permissions'])))
    if (!PERMISSIONS.has(name) && isSet(value))
      throw refuseOptions(`permissions.${name} of ${where}`, "remove it, or use the vendor's CLI");
  for (const [name, value] of Object.entries(given))
    if (GUARDS.has(name) && isSet(value))
      throw refuseOptions(`${name} of ${where}`, 'register hooks through the host');
  const { defaultMode, additionalDirectories } = asObject(given['permissions']);
  const isModeIgnored =
    isSet(defaultMode) &&
    (rulesOnly || !isPermissionMode(defaultMode) || defaultMode === 'bypassPermissions');
  return [
    ...(isModeIgnored ? [`permissions.defaultMode of ${where}`] : []),
    ...(rulesOnly && isSet(additionalDirectories)
      ? [`permissions.additionalDirectories of ${where}`]
      : []),
    ...Object.entries(given)
      .filter(([name, value]) => !(main ? SETTINGS : SETTINGS_ELSEWHERE).has(name) && isSet(value))
      .map(([name]) => `${name} of ${where}`),
  ];
}

/** The fields of an `initialize` request without effect. */
export const ignoredFields = (request: JsonObject): readonly string[] =>
  Object.entries(request)
    .filter(([name, value]) => !INITIALIZE.has(name) && isSet(value))
    .map(([name]) => name);

/**
 * The hook events that this CLI never fires. `guards` must be refused: such a hook could prevent
 * something, and the user relies on it.
 */
export function uncalledHooks(
  hooks: unknown,
  fired: readonly string[],
): { readonly guards: readonly string[]; readonly others: readonly string[] } {
  const events = Object.entries(asObject(hooks))
    .filter(([event, matchers]) => !fired.includes(event) && asArray(matchers).length > 0)
    .map(([event]) => event);
  return {
    guards: events.filter((event) => UNCALLED_GUARDS.has(event)),
    others: events.filter((event) => !UNCALLED_GUARDS.has(event)),
  };
}
