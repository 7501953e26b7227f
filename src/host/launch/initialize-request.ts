import type { JsonObject } from '../../json.ts';
import type { SessionOptions, SystemPrompt } from '../options/options.ts';

/** An in-process server, as `initialize` declares it. */
export interface DeclaredServer {
  readonly name: string;
  readonly timeout?: number;
}

/** What the options alone do not say: hooks by id, servers by name, never code. */
export interface InitializeContext {
  readonly hooks: JsonObject | undefined;
  readonly sdkServers: readonly DeclaredServer[];
  readonly manifests: Readonly<Record<string, JsonObject>>;
}

/** The fields of the `initialize` control request. */
export function initializeFields(options: SessionOptions, context: InitializeContext): JsonObject {
  const { hooks, sdkServers, manifests } = context;
  return defined({
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
  });
}

/** The fields of `initialize` that name the in-process servers. */
export function serverFields(servers: readonly DeclaredServer[]): JsonObject {
  const limited = servers.filter(({ timeout }) => timeout !== undefined);
  return {
    ...(servers.length > 0 && { sdkMcpServers: servers.map(({ name }) => name) }),
    ...(limited.length > 0 && {
      sdkMcpServerConfigs: Object.fromEntries(
        limited.map(({ name, timeout }) => [name, { timeout }]),
      ),
    }),
  };
}

/** No option is an empty prompt, as in the official SDK; the preset is the CLI's own. */
function promptFields(prompt: SystemPrompt | undefined): JsonObject {
  if (prompt === undefined) return { systemPrompt: [''] };
  if (typeof prompt === 'string') return { systemPrompt: [prompt] };
  if ('type' in prompt) return { appendSystemPrompt: prompt.append };
  return { systemPrompt: prompt };
}

const defined = (fields: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
