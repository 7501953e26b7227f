import { DuolaneError, errorMessage } from '../../errors.ts';
import { asObject, isObject, type JsonObject } from '../../json.ts';
import type { ProcessServerConfig, SessionOptions, ThinkingConfig } from '../options/options.ts';

/** An in-process server in the command line. */
interface DeclaredSdkServer {
  readonly type: string;
  readonly name: string;
}

interface FlagContext {
  /** The servers for `--mcp-config`. */
  readonly configured: Readonly<Record<string, ProcessServerConfig | DeclaredSdkServer>>;
}

const STREAM_JSON = '--output-format stream-json --verbose --input-format stream-json'.split(' ');

type Flags = readonly (string | undefined)[];

/**
 * `--name=value`. An array is joined by commas; an empty array still gives the flag, with an empty
 * value.
 */
const valued = (name: string, value: string | number | readonly string[] | undefined): Flags =>
  value === undefined
    ? []
    : [`--${name}=${Array.isArray(value) ? value.join(',') : String(value)}`];

/** As `valued`, but an empty array gives no flag. */
const listed = (name: string, values: readonly string[] = []): Flags =>
  values.length === 0 ? [] : valued(name, values);

const bare = (name: string, on: boolean | undefined): Flags => (on ? [`--${name}`] : []);

/** The options as arguments of a stream-json CLI, in the order of the official SDK. */
export function flagsOf(options: SessionOptions, { configured }: FlagContext): readonly string[] {
  const { tools } = options;
  const settings = settingsOf(options);
  return [
    ...STREAM_JSON,
    ...thinkingFlags(options.thinking, options.maxThinkingTokens),
    ...valued('effort', options.effort),
    ...valued('max-turns', options.maxTurns),
    ...valued('max-budget-usd', options.maxBudgetUsd),
    ...valued('task-budget', options.taskBudget?.total),
    ...valued('model', options.model),
    ...valued('agent', options.agent),
    ...listed('betas', options.betas),
    ...valued('json-schema', schemaOf(options)),
    ...valued('debug-file', options.debugFile),
    ...bare('debug', options.debug && options.debugFile === undefined),
    ...valued('permission-prompt-tool', promptToolOf(options)),
    ...valued('permission-prompts', options.permissionPrompts),
    ...bare('continue', options.continue),
    ...valued('resume', options.resume),
    ...listed('allowedTools', [...(options.allowedTools ?? []), ...skillRules(options.skills)]),
    ...listed('disallowedTools', options.disallowedTools),
    ...valued('tools', tools === undefined ? undefined : isList(tools) ? tools : 'default'),
    ...(Object.keys(configured).length > 0
      ? ['--mcp-config', JSON.stringify({ mcpServers: configured })]
      : []),
    ...valued('setting-sources', options.settingSources),
    ...bare('strict-mcp-config', options.strictMcpConfig),
    ...valued('permission-mode', options.permissionMode),
    ...bare('allow-dangerously-skip-permissions', options.allowDangerouslySkipPermissions),
    ...valued('fallback-model', options.fallbackModel),
    ...bare('include-partial-messages', options.includePartialMessages),
    ...bare('include-hook-events', options.includeHookEvents),
    ...bare('session-mirror', options.sessionStore !== undefined),
    ...(options.additionalDirectories ?? []).flatMap((path) => valued('add-dir', path)),
    ...valued('project-config-root', options.projectConfigRoot),
    ...pluginFlags(options),
    ...bare('fork-session', options.forkSession),
    ...valued('resume-session-at', options.resumeSessionAt),
    ...valued('resume-drops-turn', options.resumeDropsTurn),
    ...valued('session-id', options.sessionId),
    ...bare('no-session-persistence', options.persistSession === false),
    ...extraFlags(options.extraArgs),
    ...(settings === undefined ? [] : ['--settings', settings]),
    ...(options.managedSettings
      ? ['--managed-settings', JSON.stringify(options.managedSettings)]
      : []),
  ].filter((flag) => flag !== undefined);
}

const isList = (value: unknown): value is readonly string[] => Array.isArray(value);

function thinkingFlags(thinking: ThinkingConfig | undefined, maxTokens: number | undefined): Flags {
  switch (thinking?.type) {
    case undefined:
      return maxTokens === 0 ? ['--thinking=disabled'] : valued('max-thinking-tokens', maxTokens);
    case 'disabled':
      return ['--thinking=disabled'];
    case 'adaptive':
      return ['--thinking=adaptive', ...valued('thinking-display', thinking.display)];
    case 'enabled':
      return [
        ...(thinking.budgetTokens === undefined
          ? ['--thinking=adaptive']
          : valued('max-thinking-tokens', thinking.budgetTokens)),
        ...valued('thinking-display', thinking.display),
      ];
  }
}

/** Whether `initialize` carries the plugins. The CLI then waits for it before it loads any. */
export const sendsPlugins = ({ plugins = [], pluginDelivery }: SessionOptions): boolean =>
  pluginDelivery === 'initialize' && plugins.length > 0;

const pluginFlags = (options: SessionOptions): Flags =>
  sendsPlugins(options)
    ? ['--await-initialize']
    : (options.plugins ?? []).flatMap(({ path, skipMcpDiscovery }) =>
        valued(skipMcpDiscovery ? 'plugin-dir-no-mcp' : 'plugin-dir', path),
      );

function promptToolOf(options: SessionOptions): string | undefined {
  if (options.permissionPromptToolName !== undefined) return options.permissionPromptToolName;
  return (options.canUseTool ?? options.ask) ? 'stdio' : undefined;
}

const schemaOf = ({ outputFormat }: SessionOptions): string | undefined =>
  outputFormat && JSON.stringify(outputFormat.schema);

function skillRules(skills: SessionOptions['skills']): readonly string[] {
  if (skills === undefined) return [];
  return skills === 'all' ? ['Skill'] : skills.map((name) => `Skill(${name})`);
}

/**
 * The value of `--settings`: a path or JSON unchanged, or the settings with the sandbox merged into
 * them.
 */
function settingsOf({ settings, sandbox }: SessionOptions): string | undefined {
  if (typeof settings === 'string' && sandbox === undefined) return settings;
  if (settings === undefined && sandbox === undefined) return undefined;
  try {
    const base = (typeof settings === 'string' ? JSON.parse(settings) : settings) as JsonObject;
    return JSON.stringify({ ...base, ...(sandbox && { sandbox: sandboxOf(base, sandbox) }) });
  } catch (cause) {
    const why = errorMessage(cause).split('\n', 1)[0];
    throw new DuolaneError('invalid', `settings must be JSON: ${why}`, { cause });
  }
}

/**
 * The sandbox option merged into the sandbox of the settings. As in the official SDK, an enabled
 * sandbox sets `failIfUnavailable`: without the sandbox tools of the system, commands would run
 * unconfined.
 */
function sandboxOf(
  base: JsonObject | undefined,
  sandbox: NonNullable<SessionOptions['sandbox']>,
): JsonObject {
  const joined = merged(asObject(base?.['sandbox']), sandbox);
  return sandbox.enabled && joined['failIfUnavailable'] === undefined
    ? { ...joined, failIfUnavailable: true }
    : joined;
}

/** `over` on top of `base`, also inside objects; a list replaces a list. */
const merged = (base: JsonObject, over: JsonObject): JsonObject => ({
  ...base,
  ...Object.fromEntries(
    Object.entries(over).map(([name, value]) => {
      const below = base[name];
      return [name, isObject(value) && isObject(below) ? merged(below, value) : value];
    }),
  ),
});

const extraFlags = (extra: SessionOptions['extraArgs'] = {}): Flags =>
  Object.entries(extra).flatMap(([name, value]) =>
    value === null ? [`--${name}`] : [`--${name}`, value],
  );
