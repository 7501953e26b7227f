import type { JsonObject } from '../../json.ts';
import type { Block, ToolSpec } from '../models/types.ts';
import type { PolicyInput } from '../permissions/permission-policy.ts';

/** The facts about a call for the permission rules and for the permission request. */
export type CallFacts = Omit<PolicyInput, 'tool' | 'builtin' | 'readOnly'> & {
  /** The call writes a file that another program runs; see `isStartupFile`. */
  readonly guarded?: boolean;
  /** A description in one line, for the permission request. */
  readonly summary?: string | undefined;
};

export interface ToolProgress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

export interface ToolRun {
  /** The model's id of the call; it stays the same if the call is repeated. */
  readonly id: string;
  /** After an abort the call should end soon; its result is ignored. */
  readonly signal: AbortSignal;
  progress(progress: ToolProgress): void;
  /** The real path that the permission was given for; only for file tools. */
  readonly path?: string | undefined;
}

/** The result of a call. A failure of the tool is an outcome, not an exception. */
export interface ToolOutcome {
  /** The content for the model. */
  readonly content: string | readonly Block[];
  readonly isError: boolean;
  /** The value of `tool_use_result`, for programs. */
  readonly raw: unknown;
}

/** A tool of the loop: built in, or of an MCP server. */
export interface AgentTool {
  readonly spec: ToolSpec;
  readonly readOnly: boolean;
  /** The MCP server of the tool; undefined for a built-in tool. */
  readonly server?: {
    readonly name: string;
    readonly source: string;
    readonly tool: string;
    readonly title: string;
  };
  facts(input: JsonObject): CallFacts;
  call(input: JsonObject, run: ToolRun): Promise<ToolOutcome>;
}

export const failedOutcome = (message: string): ToolOutcome => ({
  content: message,
  isError: true,
  raw: `Error: ${message}`,
});

export const success = (text: string, raw: unknown = text): ToolOutcome => ({
  content: text,
  isError: false,
  raw,
});
