import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../../json.ts';
import type { History } from './history.ts';
import type { AgentFlags } from '../command-line/flags.ts';
import type { HookDispatcher } from '../permissions/hook-dispatcher.ts';
import type { ControlLink } from '../../wire/control-link.ts';
import type { ChosenModel } from '../models/choose-model.ts';
import { type Block, NO_USAGE, type TokenUsage } from '../models/types.ts';
import type { Policy } from '../permissions/permission-policy.ts';
import type { PromptQueue } from './prompt-queue.ts';
import type { PermissionRule } from '../permissions/permission-rules.ts';
import type { EntryExtra, Transcript } from './transcript.ts';
import type { Settings } from '../command-line/settings.ts';
import type { McpServers } from '../tools/mcp/mcp-servers.ts';
import type { AgentTool } from '../tools/types.ts';

export type SessionState = 'idle' | 'running' | 'requires_action';

/** The settings that the host may change while the session runs. */
export interface Choices {
  model: ChosenModel;
  policy: Policy;
  /** Real paths; see `Workspace.directories`. */
  directories: string[];
  thinkingTokens: number | undefined;
  systemPrompt: string;
  effort: string | undefined;
}

export interface Totals {
  usage: TokenUsage;
  costUsd: number;
  apiMs: number;
  results: number;
}

export interface RecordOptions {
  readonly toHost?: JsonObject | undefined;
  readonly uuid?: string | undefined;
  readonly extra?: EntryExtra | undefined;
}

/** Everything that a session is made of. */
export interface CliSessionParts {
  readonly id: string;
  readonly cwd: string;
  readonly flags: AgentFlags;
  readonly settings: Settings;
  readonly choices: Choices;
  readonly history: History;
  readonly transcript: Transcript;
  readonly lane: ControlLink;
  readonly hooks: HookDispatcher;
  readonly servers: McpServers;
  readonly queue: PromptQueue;
  /** Creates the model that replaces one that is unavailable. */
  readonly fallback: (() => Promise<ChosenModel>) | undefined;
  readonly builtins: Promise<readonly AgentTool[]>;
  /** Deny rules that the host cannot remove: the closed paths of the sandbox. */
  readonly guards: () => readonly PermissionRule[];
  readonly write: (message: JsonObject) => void;
  /** Resolves when stdout accepts more. Await it between many lines. */
  readonly drained: () => Promise<void>;
  /** The host wants `session_state_changed` messages. */
  readonly reportsState: boolean;
}

/**
 * The state of one session that all parts of the loop share. It runs nothing itself: the agent loop
 * does.
 */
export class CliSession {
  readonly parts: CliSessionParts;
  readonly totals: Totals = { usage: NO_USAGE, costUsd: 0, apiMs: 0, results: 0 };
  /** The schema of the structured output of each turn. */
  schema: JsonObject | undefined;
  /** Why no turn may run: the host requires a guard that this CLI does not support. */
  refusal: string | undefined;
  #ownTools: readonly AgentTool[] = [];
  #rest: 'idle' | 'running' = 'idle';
  #reported: SessionState = 'idle';
  #openQuestions = 0;
  /** Each notice, and whether it was written. */
  readonly #notices = new Map<string, boolean>();

  constructor(parts: CliSessionParts) {
    this.parts = parts;
    this.schema = parts.flags.jsonSchema;
  }

  get state(): SessionState {
    return this.#openQuestions > 0 ? 'requires_action' : this.#rest;
  }

  /** Loads what a turn needs: tools and servers. Throws `invalid` for an invalid output schema. */
  async prepare(): Promise<void> {
    const { schema } = this;
    const structured = schema
      ? [await (await import('../tools/structured-output.ts')).structuredTool(schema)]
      : [];
    this.#ownTools = [...(await this.parts.builtins), ...structured];
    await this.parts.servers.ready();
  }

  /** All tools that the model may call now. */
  tools(): AgentTool[] {
    return [...this.#ownTools, ...this.parts.servers.tools()];
  }

  /** Writes a message to the host, with the fields that all messages have; returns its uuid. */
  emit(message: JsonObject, uuid: string = randomUUID()): string {
    this.parts.write({ ...message, uuid, session_id: this.parts.id });
    return uuid;
  }

  /**
   * Records a user message under one uuid, which it returns: adds the message to the transcript,
   * writes the line `toHost` to the host, if given, then adds the message to the history. The
   * transcript comes first, so that a host that mirrors it never knows more than the mirror. A tool
   * result goes to its call; one without an open call is passed to the model as it is.
   *
   * Blocks of a model message are recorded by `ModelStep` instead: they must not be in the
   * transcript before the message is final.
   */
  record(
    content: readonly Block[],
    { toHost, uuid = randomUUID(), extra }: RecordOptions = {},
  ): string {
    const { history, transcript } = this.parts;
    transcript.append('user', [
      { message: { role: 'user', content }, uuid, ...(extra && { extra }) },
    ]);
    if (toHost) this.emit(toHost, uuid);
    const output =
      extra && 'structured_output' in extra ? { value: extra.structured_output } : undefined;
    const rest = content.filter(
      (block) => block.type !== 'tool_result' || !history.addResult(block, output),
    );
    if (rest.length > 0) history.addUser(rest, { isMeta: extra?.isMeta === true });
    return uuid;
  }

  setState(state: 'idle' | 'running'): void {
    this.#rest = state;
    this.#reportState();
  }

  /** Runs `question`; the session has the state `requires_action` meanwhile. */
  async waiting<T>(question: () => Promise<T>): Promise<T> {
    this.#openQuestions++;
    this.#reportState();
    try {
      return await question();
    } finally {
      this.#openQuestions--;
      this.#reportState();
    }
  }

  #reportState(): void {
    const { state } = this;
    if (state === this.#reported || !this.parts.reportsState) return;
    this.#reported = state;
    this.emit({ type: 'system', subtype: 'session_state_changed', state, sdk_host_only: true });
  }

  /** The policy of calls: that of the host, and the deny rules that it cannot remove. */
  get policy(): Policy {
    const { choices, guards } = this.parts;
    return { ...choices.policy, deny: [...choices.policy.deny, ...guards()] };
  }

  setPolicy(policy: Policy): void {
    const { choices } = this.parts;
    const changed = policy.mode !== choices.policy.mode;
    choices.policy = policy;
    if (changed) {
      this.emit({ type: 'system', subtype: 'status', status: null, permissionMode: policy.mode });
    }
  }

  /** Adds notices about options without effect. The next turn writes each of them once. */
  announce(...notices: readonly string[]): void {
    for (const notice of notices) if (!this.#notices.has(notice)) this.#notices.set(notice, false);
  }

  /** Writes the notices that were not written yet. */
  writeNotices(): void {
    for (const [notice, isWritten] of this.#notices) {
      if (!isWritten) this.emitInfo(notice, { tag: 'option_ignored', level: 'warning' });
      this.#notices.set(notice, true);
    }
  }

  /** Writes a line for the user of the host; the model does not get it. */
  emitInfo(content: string, extra: JsonObject = {}): void {
    this.emit({ type: 'system', subtype: 'informational', content, level: 'info', ...extra });
  }
}
