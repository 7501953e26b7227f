import { DuolaneError } from '../../errors.ts';
import { asArray, asObject, isObject, type JsonObject } from '../../json.ts';
import { isPermissionMode } from './flags.ts';

/**
 * What a host may ask for and this CLI does not do. A guard (hooks, deny rules, a policy) that would
 * not be in force is refused, and nothing runs; anything else is announced on the message lane.
 */

/** Settings that are in force here. */
const SETTINGS = new Set(['passEnv', 'permissions', 'prices', 'retry', 'sandbox']);
/** And those that are in force in other settings than `--settings`. */
const SETTINGS_ELSEWHERE = new Set(['permissions']);
const PERMISSIONS = new Set(['allow', 'deny', 'ask', 'defaultMode', 'additionalDirectories']);
/** Settings that guard something and are not in force. */
const GUARDS = new Set(['hooks']);

/** Fields of `initialize` that are in force here. */
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

/** Hooks that could prevent something which does happen here, and are not called. */
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

/** Where settings come from, which decides what of them is in force. */
interface SettingsKind {
  /** `--settings`: all that this CLI knows, the sandbox included. Elsewhere, permissions alone. */
  readonly main?: boolean;
  /** `apply_flag_settings`: of the permissions, the rules alone. */
  readonly rulesOnly?: boolean;
}

/** Throws `unsupported` for a guard; returns the names of the other settings without effect. */
export function ignoredSettings(
  given: JsonObject,
  where: string,
  { main = false, rulesOnly = false }: SettingsKind = {},
): readonly string[] {
  if (!main && isSet(given['sandbox']))
    throw refuseOptions(`sandbox of ${where}`, 'give it as the option sandbox, or with --settings');
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

/** The fields of `initialize` without effect here. */
export const ignoredFields = (request: JsonObject): readonly string[] =>
  Object.entries(request)
    .filter(([name, value]) => !INITIALIZE.has(name) && isSet(value))
    .map(([name]) => name);

/** Which of these hook events this CLI never fires: those that must be refused, and the others. */
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
