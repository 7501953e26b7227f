import type { Ask } from '../../ask.ts';
import type { Frame, Logger } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import type { ToolSource } from '../../mcp/types.ts';
import type { Transport } from '../../process/types.ts';
import type { OnElicitation } from '../callbacks/elicitation.ts';
import type { HookOptions } from '../sdk-types/hook-types.ts';
import type { CanUseTool, PermissionMode } from '../sdk-types/permission-types.ts';
import type { SpawnClaudeCodeProcess } from '../launch/custom-process.ts';
import type { SessionStore } from '../transcripts/session-store.ts';

/** A server that the CLI starts. */
export interface McpStdioServerConfig {
  type?: 'stdio';
  command: string;
  args?: readonly string[];
  env?: Readonly<Record<string, string>>;
}

interface RemoteServerConfig<Type> {
  type: Type;
  url: string;
  headers?: Readonly<Record<string, string>>;
}

/** Servers that the CLI dials. */
export type McpHttpServerConfig = RemoteServerConfig<'http'>;
export type McpSSEServerConfig = RemoteServerConfig<'sse'>;

/** A server that the CLI starts or dials itself. */
export type ProcessServerConfig = McpStdioServerConfig | McpHttpServerConfig | McpSSEServerConfig;

/** A server in this process: our registry, any ToolSource, or a server object of the MCP SDK. */
export interface SdkServerConfig {
  readonly type: 'sdk';
  readonly name: string;
  readonly instance: object;
  /** Milliseconds that the CLI waits for a call; without it there is no limit. */
  readonly timeout?: number;
}

/** `SdkServerConfig` under the name of the official SDK. */
export type McpSdkServerConfigWithInstance = SdkServerConfig;

export type McpServerConfig = ProcessServerConfig | SdkServerConfig | ToolSource;

export type SystemPrompt =
  | string
  | readonly string[]
  | { readonly type: 'preset'; readonly preset: 'claude_code'; readonly append?: string };

export type ThinkingConfig =
  | { readonly type: 'adaptive'; readonly display?: string }
  | { readonly type: 'enabled'; readonly budgetTokens?: number; readonly display?: string }
  | { readonly type: 'disabled' };

export type EffortLevel = 'low' | 'medium' | 'high' | 'xhigh' | 'max';

/** Which settings files the CLI reads. */
export type SettingSource = 'user' | 'project' | 'local';

export type SdkPluginConfig = { type: 'local'; path: string };

export type SandboxSettings = JsonObject & { enabled?: boolean };

export type OutputFormat = { type: 'json_schema'; schema: JsonObject };

/** A helper that the model can give work to. */
export type AgentDefinition = {
  /** When it is to be used, for the model. */
  description: string;
  prompt: string;
  tools?: string[];
  disallowedTools?: string[];
  model?: string;
  mcpServers?: unknown[];
  skills?: string[];
  maxTurns?: number;
  background?: boolean;
  effort?: EffortLevel | number;
  permissionMode?: PermissionMode;
};

/**
 * The options of the official SDK under their names, for everything that the CLI does itself; they
 * become flags, environment or fields of `initialize`.
 */
export interface AgentOptions {
  readonly model?: string;
  readonly fallbackModel?: string;
  readonly maxTurns?: number;
  readonly maxBudgetUsd?: number;
  readonly taskBudget?: { readonly total: number };
  readonly maxThinkingTokens?: number;
  readonly thinking?: ThinkingConfig;
  readonly effort?: EffortLevel;
  readonly betas?: readonly string[];
  readonly systemPrompt?: SystemPrompt;
  readonly planModeInstructions?: string;
  readonly allowedTools?: readonly string[];
  readonly disallowedTools?: readonly string[];
  /** The built-in tools: a list of names, `[]` for none, or the preset. */
  readonly tools?: readonly string[] | { readonly type: 'preset'; readonly preset: 'claude_code' };
  readonly toolAliases?: Readonly<Record<string, string>>;
  readonly strictMcpConfig?: boolean;
  readonly permissionMode?: PermissionMode;
  readonly allowDangerouslySkipPermissions?: boolean;
  readonly permissionPromptToolName?: string;
  readonly permissionPrompts?: 'host' | 'none';
  readonly includeHookEvents?: boolean;
  readonly includePartialMessages?: boolean;
  readonly forwardSubagentText?: boolean;
  readonly outputFormat?: OutputFormat;
  readonly continue?: boolean;
  readonly resume?: string;
  readonly forkSession?: boolean;
  readonly sessionId?: string;
  readonly resumeSessionAt?: string;
  readonly resumeDropsTurn?: string;
  readonly persistSession?: boolean;
  readonly title?: string;
  readonly agent?: string;
  readonly agents?: Readonly<Record<string, AgentDefinition>>;
  readonly agentProgressSummaries?: boolean;
  readonly perTaskStopAffordance?: boolean;
  readonly settings?: string | JsonObject;
  readonly managedSettings?: JsonObject;
  readonly settingSources?: readonly SettingSource[];
  readonly sandbox?: SandboxSettings;
  readonly plugins?: readonly SdkPluginConfig[];
  readonly skills?: readonly string[] | 'all';
  readonly projectConfigRoot?: string;
  readonly additionalDirectories?: readonly string[];
  readonly enableFileCheckpointing?: boolean;
  readonly promptSuggestions?: boolean;
  readonly supportedDialogKinds?: readonly string[];
  readonly debug?: boolean;
  readonly debugFile?: string;
  /** Any further flag: `--key value`, or `--key` for null. */
  readonly extraArgs?: Readonly<Record<string, string | null>>;
}

/** Which program runs, and where. */
export interface LaunchOptions {
  readonly cwd?: string;
  /**
   * The environment of the CLI. As in the official SDK it replaces ours; without it the CLI gets
   * all of ours. See `inheritEnv`.
   */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** With `env`: true adds it to our environment, a list to these variables of ours. */
  readonly inheritEnv?: boolean | readonly string[];
  /** The CLI; without it our own `duolane-agent`. `officialCli()` finds the vendor's. */
  readonly pathToClaudeCodeExecutable?: string;
  /** What runs a CLI that is a script; this Node by default. */
  readonly executable?: 'node' | 'bun' | 'deno';
  readonly executableArgs?: readonly string[];
  /** Another way to start it: in memory, in a container, far away. */
  readonly transport?: (launch: Launch) => Transport;
  /** As `transport`, under the name and in the shape of the official SDK. */
  readonly spawnClaudeCodeProcess?: SpawnClaudeCodeProcess;
  readonly stderr?: (text: string) => void;
  /** After the end of input, before SIGTERM; and after SIGTERM, before SIGKILL. */
  readonly graceMs?: number;
  readonly killMs?: number;
}

/** What is to be started, worked out from the options. */
export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  readonly env: Readonly<Record<string, string>>;
}

/** The callbacks that the CLI reaches through the control lane. */
export interface CallbackOptions {
  readonly mcpServers?: Readonly<Record<string, McpServerConfig>>;
  readonly canUseTool?: CanUseTool;
  readonly hooks?: HookOptions;
  readonly onElicitation?: OnElicitation;
  readonly onUserDialog?: (
    request: JsonObject,
    options: { readonly signal: AbortSignal },
  ) => Promise<JsonObject> | JsonObject;
  /** Gets `input` of a tool, can_use_tool and elicitation, unless their own callback is set; their request stays open. */
  readonly ask?: Ask;
  /** Whether the answer to `ask` may change the input that it approves; true. With false such an answer is a deny. */
  readonly approvalEdits?: boolean;
}

/** How long silence may last. Nothing counts while a handler runs or a person decides. */
export interface StallOptions {
  /** Without any frame, though something is awaited: a `stalled` message and an interrupt. */
  readonly afterMs: number;
  /** From there to the failure of the session. */
  readonly failMs?: number;
}

/** How a session behaves on our side of the pipe. */
export interface HostOptions {
  /** What `frames()` holds; with `message`, the default, the control lane costs nothing. */
  readonly lanes?: 'message' | 'both';
  /** A sync tap, both lanes and directions, as a line is parsed or written; must be quick. */
  readonly onFrame?: (frame: Frame) => void;
  /** A file that gets every frame as a line, secrets redacted: docs/reference/trace-format.md. */
  readonly trace?: string;
  readonly logger?: Logger;
  /** Closes stdin right after the input, whatever still runs. Refused with tools, hooks or callbacks. */
  readonly oneshot?: boolean;
  readonly stall?: StallOptions | false;
  /** How long an interrupt may stay unacknowledged, then without effect, before the CLI is ended. */
  readonly interruptMs?: number;
  /** How long `ready()` waits. */
  readonly readyMs?: number;
  /** How long an idle CLI may take to leave after the end of its input. */
  readonly exitMs?: number;
  /** For CLIs of old that gave up on tools after a minute. */
  readonly streamCloseTimeoutMs?: number;
  /** Memory for messages that nobody has read yet, 512 KiB by default; what is beyond waits on disk. */
  readonly memoryBytes?: number;
  readonly diskBytes?: number;
  readonly maxLineBytes?: number;
  readonly sessionStore?: SessionStore;
  /** Taken for the sake of programs that have it: entries go to the store as they come, always. */
  readonly sessionStoreFlush?: string;
  /** How long a store may take to give back a session that is resumed. */
  readonly loadTimeoutMs?: number;
}

/** What `openSession` takes: the official options, and ours. */
export interface SessionOptions extends AgentOptions, LaunchOptions, CallbackOptions, HostOptions {}

/** What `query` takes. */
export interface QueryOptions extends SessionOptions {
  readonly abortController?: AbortController;
}

type Writable<T> = T extends (...args: never[]) => unknown
  ? T
  : { -readonly [Key in keyof T]: T[Key] };

/** `QueryOptions` for programs that put them together step by step, as the official SDK lets them. */
export type Options = { -readonly [Key in keyof QueryOptions]: Writable<QueryOptions[Key]> };
