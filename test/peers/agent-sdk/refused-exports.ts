const SETTINGS = 'resolves the settings files of the vendor, with rules that only its CLI knows';
const TEXTS = "texts of the vendor's service";
const TOOLS = "the tools of the vendor's CLI, which change with its version";
const SPARE =
  'startup() starts a CLI ahead of its prompt; a spare process for any folder is missing';
const UNSEEN = 'not described yet; the message or input is passed on unchanged';
const PART = 'part of another type, which describes it in place';
const INTERNAL = 'a type of the inside of the official SDK';

/** Names of the official package that the host does not export, each with the reason. */
export const REFUSED_EXPORTS: Readonly<Record<string, string>> = {
  ...all(SETTINGS, [
    'ConfigScope',
    'DeniedModelsMatch',
    'PolicySettingsOrigin',
    'ProvenanceEntry',
    'ResolveSettingsOptions',
    'ResolvedSettingSource',
    'ResolvedSettings',
    'SDKSettingsParseError',
    'filterEscalatingDefaultMode',
    'matchDeniedModels',
    'resolveSettings',
  ]),
  ...all(TEXTS, [
    'ORG_POLICY_LIMIT_PREFIXES',
    'USAGE_LIMIT_ERROR_PREFIXES',
    'USAGE_TRANSITION_PREFIXES',
    'USAGE_WARNING_PREFIXES',
  ]),
  ...all(TOOLS, ['BUILTIN_TOOL_NAMES', 'LEGACY_TOOL_NAME_ALIASES']),
  ...all(SPARE, ['ClaimOptions', 'SpareProcess', 'prewarm']),
  ...all('summaries of a store are not kept: listSessions reads the transcripts', [
    'SessionSummaryEntry',
    'foldSessionSummary',
  ]),
  ...all(UNSEEN, [
    'BackgroundTaskSummary',
    'DirectoryAddedHookInput',
    'FastModeDisabledReason',
    'FastModeState',
    'MessageDisplayHookInput',
    'MessageDisplayHookSpecificOutput',
    'PostModelSwitchHookInput',
    'PostModelSwitchHookSpecificOutput',
    'PreModelSwitchHookInput',
    'PreModelSwitchHookSpecificOutput',
    'SDKActiveGoalMessage',
    'SDKControlRequestProgressMessage',
    'SDKConversationResetMessage',
    'SDKDeferredToolUse',
    'SDKMessageOrigin',
    'SDKModelRefusalFallbackMessage',
    'SDKModelRefusalNoFallbackMessage',
    'SDKSessionWritesLostMessage',
    'SDKStartupFailureReason',
    'SDKThinkingTokensMessage',
    'SDKWorkerShuttingDownMessage',
    'SessionCronSummary',
  ]),
  ...all(PART, [
    'McpClaudeAIProxyServerConfig',
    'McpServerProvenance',
    'McpServerStatusConfig',
    'McpServerToolPolicy',
    'PostToolBatchToolCall',
    'SDKContextUsage',
    'SDKContextUsageCategory',
    'SDKControlListPermissionRulesResponse',
    'SDKControlPermissionRulesState',
    'SDKMcpResourceLink',
    'SDKPermissionRuleDescription',
    'SDKPermissionRuleEntry',
    'SDKPermissionWorkspaceDirectory',
    'SandboxCredentialsConfig',
    'SandboxFilesystemConfig',
    'SandboxIgnoreViolations',
    'SandboxNetworkConfig',
  ]),
  ...all(INTERNAL, ['AnyZodRawShape', 'InferShape', 'Transport']),
};

/** Entry points of the official package without a counterpart, each with the reason. */
export const REFUSED_ENTRIES: Readonly<Record<string, string>> = {
  './core': 'the main entry inlines no packages; import duolane',
  './browser': "a client of the vendor's sessions; the page API and A2A stream to browsers",
  './bridge': "the vendor's remote sessions",
  './extract': 'a helper for programs that are compiled with Bun',
  './sdk-tools': "types of the inputs of the vendor's tools",
  './sdk-tools.js': "types of the inputs of the vendor's tools",
};

function all(reason: string, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, reason]));
}
