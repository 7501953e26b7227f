import type { JsonObject } from '../../json.ts';
import type {
  McpHttpServerConfig,
  McpSSEServerConfig,
  McpStdioServerConfig,
  OutputFormat,
} from '../options/options.ts';
import type { SessionMutationOptions } from '../transcripts/edit-session.ts';
import type { SessionQuery } from '../transcripts/list-sessions.ts';
import type { InterruptReceipt } from '../types.ts';

// Names of the official SDK for types that have another name here, or are part of another type.

/**
 * Separates the texts of a system prompt that are the same in every session from those that are
 * not. The CLI lets the model's provider cache what comes before it.
 */
export const SYSTEM_PROMPT_DYNAMIC_BOUNDARY = '__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__';

export type ListSessionsOptions = SessionQuery;
export type GetSessionInfoOptions = SessionMutationOptions;
export type GetSessionMessagesOptions = SessionQuery;
export type ListSubagentsOptions = SessionMutationOptions;
export type GetSubagentMessagesOptions = SessionQuery;
export type SessionStoreFlush = 'batched' | 'eager';

export type OutputFormatType = 'json_schema';
export type BaseOutputFormat = { type: OutputFormatType };
export type JsonSchemaOutputFormat = OutputFormat;

/** A server in the process of the host, as the CLI sees it. */
export type McpSdkServerConfig = { type: 'sdk'; name: string };
export type McpServerConfigForProcessTransport =
  | McpStdioServerConfig
  | McpSSEServerConfig
  | McpHttpServerConfig
  | McpSdkServerConfig;
/** A server of a sub-agent: the name of one of the session, or its own. */
export type AgentMcpServerSpec = string | Record<string, McpServerConfigForProcessTransport>;

export type SDKControlInterruptResponse = InterruptReceipt;

/** A request on the control lane, in both directions. */
export type SDKControlRequest = {
  type: 'control_request';
  request_id: string;
  request: JsonObject & { subtype: string };
};

/** The response to a request on the control lane. */
export type SDKControlResponse = {
  type: 'control_response';
  response:
    | { subtype: 'success'; request_id: string; response?: Record<string, unknown> }
    | { subtype: 'error'; request_id: string; error: string; error_code?: string };
};

/** The name of a beta feature of the API. */
export type SdkBeta = string;

/** Why a turn ended. A newer CLI may give other reasons. */
export type TerminalReason =
  | 'completed'
  | 'aborted_streaming'
  | 'aborted_tools'
  | 'api_error'
  | 'blocking_limit'
  | (string & {});
