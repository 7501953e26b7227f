import { type JsonObject, omitUndefined } from '../../json.ts';
import type { SessionOptions, SystemPrompt } from '../options/options.ts';
import { sendsPlugins } from './cli-flags.ts';

/** An in-process server in the form that `initialize` declares it. */
export interface DeclaredServer {
  readonly name: string;
  readonly timeout?: number;
}

/**
 * The parts of `initialize` that the options do not contain: hooks by id and servers by name, never
 * code.
 */
export interface InitializeContext {
  readonly hooks: JsonObject | undefined;
  readonly sdkServers: readonly DeclaredServer[];
  readonly manifests: Readonly<Record<string, JsonObject>>;
}

/** The fields of the `initialize` control request. */
export function initializeFields(options: SessionOptions, context: InitializeContext): JsonObject {
  const { hooks, sdkServers, manifests } = context;
  return omitUndefined<JsonObject>({
    hooks,
    ...serverFields(sdkServers),
    sdkMcpServerManifests: Object.keys(manifests).length > 0 ? manifests : undefined,
    jsonSchema: options.outputFormat?.schema,
    ...promptFields(options.systemPrompt),
    planModeInstructions: options.planModeInstructions,
    toolAliases: options.toolAliases,
    agents: options.agents,
    title: options.title,
    skills: options.skills === 'all' ? undefined : options.skills,
    promptSuggestions: options.promptSuggestions,
    agentProgressSummaries: options.agentProgressSummaries,
    forwardSubagentText: options.forwardSubagentText,
    supportedDialogKinds: options.supportedDialogKinds,
    perTaskStopAffordance: options.perTaskStopAffordance,
    plugins: sendsPlugins(options) ? options.plugins : undefined,
  });
}

/** The fields of `initialize` that name the in-process servers. */
export function serverFields(servers: readonly DeclaredServer[]): JsonObject {
  const limited = servers.filter(({ timeout }) => timeout !== undefined);
  const configs = Object.fromEntries(limited.map(({ name, timeout }) => [name, { timeout }]));
  return omitUndefined<JsonObject>({
    sdkMcpServers: servers.length > 0 ? servers.map(({ name }) => name) : undefined,
    sdkMcpServerConfigs: limited.length > 0 ? configs : undefined,
  });
}

/**
 * Without the option the system prompt is empty, as in the official SDK. The preset keeps the CLI's
 * own prompt.
 */
function promptFields(prompt: SystemPrompt | undefined): JsonObject {
  if (prompt === undefined) return { systemPrompt: [''] };
  if (typeof prompt === 'string') return { systemPrompt: [prompt] };
  if (!('type' in prompt)) return { systemPrompt: prompt };
  const systemPromptSnapshot = prompt.snapshot;
  if (prompt.type === 'custom')
    return { systemPrompt: [prompt.prompt].flat(), systemPromptSnapshot };
  const { append: appendSystemPrompt, excludeDynamicSections } = prompt;
  return { appendSystemPrompt, excludeDynamicSections, systemPromptSnapshot };
}
