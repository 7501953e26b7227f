import type { JsonObject } from '../../json.ts';
import type { Block, ToolSpec } from '../models/types.ts';
import type { PolicyInput } from '../permissions/permission-policy.ts';

/** What the permission rules and the person who is asked want to know about a call. */
export type CallFacts = Omit<PolicyInput, 'tool' | 'builtin' | 'readOnly'> & {
  /** One line for a person. */
  readonly summary?: string | undefined;
};

export interface ToolProgress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

export interface ToolRun {
  /** The model's id of the call; the same when the call is made again. */
  readonly id: string;
  /** Aborting must end the call soon; nobody waits for it any more. */
  readonly signal: AbortSignal;
  progress(progress: ToolProgress): void;
  /** The real path that the permission was given for, for a tool of files. */
  readonly path?: string | undefined;
}

/** A failure of the tool is an outcome, not a throw. */
export interface ToolOutcome {
  /** What the model sees. */
  readonly content: string | readonly Block[];
  readonly isError: boolean;
  /** The same for programs: `tool_use_result`. */
  readonly raw: unknown;
}

/** A tool as the loop knows it, whoever runs it. */
export interface AgentTool {
  readonly spec: ToolSpec;
  readonly readOnly: boolean;
  /** Absent: built in. */
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
