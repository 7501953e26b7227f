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

/** An MCP server that the CLI starts as a child process. */
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

/** MCP servers that the CLI connects to. */
export type McpHttpServerConfig = RemoteServerConfig<'http'>;
export type McpSSEServerConfig = RemoteServerConfig<'sse'>;

/** An MCP server that the CLI starts or connects to itself. */
export type ProcessServerConfig = McpStdioServerConfig | McpHttpServerConfig | McpSSEServerConfig;

/** A server in this process: a registry, any ToolSource, or a server object of the MCP SDK. */
export interface SdkServerConfig {
  readonly type: 'sdk';
  readonly name: string;
  readonly instance: object;
  /** How many milliseconds the CLI waits for a call; unlimited by default. */
  readonly timeout?: number;
}

/** A server in this process, under the name of the official SDK. */
export type McpSdkServerConfigWithInstance = SdkServerConfig;

/** A value of `mcpServers`: a server of the CLI, a server in this process, or a bare ToolSource. */
export type McpServerConfig = ProcessServerConfig | SdkServerConfig | ToolSource;

export type SystemPrompt =
  | string
  | readonly string[]
  | {
      readonly type: 'preset';
      readonly preset: 'claude_code';
      readonly append?: string;
      /** Moves what differs per machine and folder out of the system prompt. */
      readonly excludeDynamicSections?: boolean;
      readonly snapshot?: boolean;
    }
  | {
      readonly type: 'custom';
      readonly prompt: string | readonly string[];
      /** Keeps the prompt of a session: a later run of the session uses it unchanged. */
      readonly snapshot?: boolean;
    };

/** A dialog that the CLI wants to show to the user. The payload depends on the kind. */
export type UserDialogRequest = {
  dialogKind: string;
  payload: Record<string, unknown>;
  toolUseID?: string;
};

export type UserDialogResult =
  | { behavior: 'completed'; result: unknown }
  | { behavior: 'cancelled' };

export type OnUserDialog = (
  request: UserDialogRequest,
  options: { readonly signal: AbortSignal; readonly requestId: string },
) => Promise<UserDialogResult> | UserDialogResult;

/** Settings of built-in tools. `previewFormat`: what the model writes into previews of choices. */
export type ToolConfig = { askUserQuestion?: { previewFormat?: 'markdown' | 'html' } };

export type ThinkingConfig =
  | { readonly type: 'adaptive'; readonly display?: string }
  | { readonly type: 'enabled'; readonly budgetTokens?: number; readonly display?: string }
  | { readonly type: 'disabled' };

export type EffortLevel = 'low' | 'medium' | 'high' | 'xhigh' | 'max';

/** Which settings files the CLI reads. */
export type SettingSource = 'user' | 'project' | 'local';

/** A plugin folder. With `skipMcpDiscovery` the CLI does not connect to the plugin's servers. */
export type SdkPluginConfig = { type: 'local'; path: string; skipMcpDiscovery?: boolean };

export type SandboxSettings = JsonObject & { enabled?: boolean };

export type OutputFormat = { type: 'json_schema'; schema: JsonObject };

/** A subagent that the model can delegate work to. */
export type AgentDefinition = {
  /** Says when to use the subagent; the model reads it. */
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
 * The options of the official SDK, under their names, for everything that the CLI does itself. The
 * host passes them on as flags, environment variables or fields of `initialize`.
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
  /** The built-in tools: a list of names, `[]` to have no built-in tools, or the preset. */
  readonly tools?: readonly string[] | { readonly type: 'preset'; readonly preset: 'claude_code' };
  readonly toolAliases?: Readonly<Record<string, string>>;
  readonly toolConfig?: ToolConfig;
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
  /** How the CLI gets `plugins`: as flags, or in `initialize`, for which it then waits. */
  readonly pluginDelivery?: 'argv' | 'initialize';
  readonly skills?: readonly string[] | 'all';
  readonly projectConfigRoot?: string;
  readonly additionalDirectories?: readonly string[];
  readonly enableFileCheckpointing?: boolean;
  readonly promptSuggestions?: boolean;
  /** The kinds of dialogs that `onUserDialog` can answer. */
  readonly supportedDialogKinds?: readonly string[];
  /** The CLI passes the text of a message to the model and expands no commands or files in it. */
  readonly verbatimPrompts?: boolean;
  readonly debug?: boolean;
  readonly debugFile?: string;
  /** Further flags by name without dashes: `--key value`, or a bare `--key` for null. */
  readonly extraArgs?: Readonly<Record<string, string | null>>;
}

/** Options that decide which program runs, and where. */
export interface LaunchOptions {
  readonly cwd?: string;
  /**
   * The environment of the CLI. As in the official SDK it replaces the environment of this process;
   * without it the CLI inherits everything. See `inheritEnv`.
   */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /**
   * With `env`: true adds `env` to all variables of this process, a list adds it to these variables
   * only.
   */
  readonly inheritEnv?: boolean | readonly string[];
  /** The path of the CLI; `duolane-agent` by default. `officialCli()` finds the vendor's CLI. */
  readonly pathToClaudeCodeExecutable?: string;
  /** The runtime for a CLI that is a script; the current Node.js by default. */
  readonly executable?: 'node' | 'bun' | 'deno';
  readonly executableArgs?: readonly string[];
  /** Starts the CLI in another way: in memory, in a container, on another machine. */
  readonly transport?: (launch: Launch) => Transport;
  /** The same purpose as `transport`, with the name and types of the official SDK. */
  readonly spawnClaudeCodeProcess?: SpawnClaudeCodeProcess;
  /**
   * Gets what the CLI writes to stderr. If it throws, the error is logged and it is not called
   * again.
   */
  readonly stderr?: (text: string) => void;
  /** How long the CLI may run after the end of its input, before SIGTERM. */
  readonly graceMs?: number;
  /** How long the CLI may run after SIGTERM, before SIGKILL. */
  readonly killMs?: number;
}

/** The process to start, computed from the options. */
export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  readonly env: Readonly<Record<string, string>>;
}

/** The callbacks that the CLI calls over the control lane. */
export interface CallbackOptions {
  readonly mcpServers?: Readonly<Record<string, McpServerConfig>>;
  readonly canUseTool?: CanUseTool;
  readonly hooks?: HookOptions;
  readonly onElicitation?: OnElicitation;
  /**
   * Answers `request_user_dialog`. Without it the request stays unanswered, as in the official SDK.
   */
  readonly onUserDialog?: OnUserDialog;
  /**
   * Answers questions to a person: input of a tool, `can_use_tool` and elicitation, unless
   * `canUseTool` or `onElicitation` is set. The CLI's request stays open until the answer comes.
   */
  readonly ask?: Ask;
  /**
   * Whether an answer to `ask` may change the input that it approves; true by default. With false,
   * an answer that changes the input denies the tool.
   */
  readonly approvalEdits?: boolean;
}

/**
 * How long the CLI may stay silent. Time does not count while a handler runs or a person decides.
 */
export interface StallOptions {
  /** Time without a frame, while work is open, until a `stalled` message and an interrupt. */
  readonly afterMs: number;
  /** Further time until the session fails with `timeout`. */
  readonly failMs?: number;
}

/** Options of the host itself, which the CLI does not see. */
export interface HostOptions {
  /**
   * The lanes that `frames()` yields; `message` by default, which avoids the cost of the control
   * lane.
   */
  readonly lanes?: 'message' | 'both';
  /** Called synchronously with each frame of both lanes and directions; it must return quickly. */
  readonly onFrame?: (frame: Frame) => void;
  /**
   * A file that gets every frame as a line, secrets redacted; see docs/reference/trace-format.md.
   */
  readonly trace?: string;
  readonly logger?: Logger;
  /**
   * Closes stdin right after the input, whatever still runs. `invalid` with tools, hooks or
   * callbacks, whose responses need stdin.
   */
  readonly oneshot?: boolean;
  readonly stall?: StallOptions | false;
  /**
   * How long the CLI may take to acknowledge an interrupt, and then to end its turn, before it is
   * ended and the session fails with `timeout`.
   */
  readonly interruptMs?: number;
  /** How long `ready()` waits for the servers. */
  readonly readyMs?: number;
  /** How long an idle CLI may take to exit after the end of its input. */
  readonly exitMs?: number;
  /** The tool timeout of older CLIs, which gave up on tools after a minute; one day by default. */
  readonly streamCloseTimeoutMs?: number;
  /** Memory for unread messages, 512 KiB by default. Messages beyond it are queued on disk. */
  readonly memoryBytes?: number;
  /** Disk space for unread messages. */
  readonly diskBytes?: number;
  /** The longest line of the CLI that is parsed; a longer one is reported as `noise`. */
  readonly maxLineBytes?: number;
  /** Gets a copy of the transcript, and is where `resume` loads a session from. */
  readonly sessionStore?: SessionStore;
  /**
   * Accepted for programs that set it, without effect: entries always go to the store immediately.
   */
  readonly sessionStoreFlush?: string;
  /** How long the store may take to load the session that `resume` names. */
  readonly loadTimeoutMs?: number;
}

/** The options of `openSession`: those of the official SDK, and those of the host. */
export interface SessionOptions extends AgentOptions, LaunchOptions, CallbackOptions, HostOptions {}

/** The options of `query`. */
export interface QueryOptions extends SessionOptions {
  readonly abortController?: AbortController;
}

type Writable<T> = T extends (...args: never[]) => unknown
  ? T
  : { -readonly [Key in keyof T]: T[Key] };

/** `QueryOptions` with writable members, for programs that assign them one by one. */
export type Options = { -readonly [Key in keyof QueryOptions]: Writable<QueryOptions[Key]> };
