import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../../json.ts';
import type { History } from './history.ts';
import type { AgentFlags } from '../command-line/flags.ts';
import type { HookDispatcher } from '../permissions/hook-dispatcher.ts';
import type { ControlLink } from '../../wire/control-link.ts';
import type { ChosenModel } from '../models/choose-model.ts';
import { NO_USAGE, type TokenUsage } from '../models/types.ts';
import type { Policy } from '../permissions/permission-policy.ts';
import type { PromptQueue } from './prompt-queue.ts';
import type { PermissionRule } from '../permissions/permission-rules.ts';
import type { Transcript } from './transcript.ts';
import type { Settings } from '../command-line/settings.ts';
import type { McpServers } from '../tools/mcp/mcp-servers.ts';
import type { AgentTool } from '../tools/types.ts';

export type SessionState = 'idle' | 'running' | 'requires_action';

/** What the host may change while the session runs. */
export interface Choices {
  model: ChosenModel;
  policy: Policy;
  /** By their real paths; see `Place`. */
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

/**
 * One conversation with one host: what all parts of the loop share. It owns nothing that runs; the
 * agent around it does.
 */
export class CliSession {
  readonly id: string;
  readonly cwd: string;
  readonly flags: AgentFlags;
  readonly settings: Settings;
  readonly choices: Choices;
  readonly conversation: History;
  readonly transcript: Transcript;
  readonly lane: ControlLink;
  readonly hooks: HookDispatcher;
  readonly servers: McpServers;
  readonly queue: PromptQueue;
  /** Sets up the model that takes over when another cannot be had. */
  readonly fallback: (() => Promise<ChosenModel>) | undefined;
  readonly totals: Totals = { usage: NO_USAGE, costUsd: 0, apiMs: 0, results: 0 };
  /** The schema that the answer of a turn must have. */
  schema: JsonObject | undefined;
  /** Why no turn may run: the host asked for a guard that this CLI does not have. */
  refusal: string | undefined;
  readonly #builtins: Promise<readonly AgentTool[]>;
  readonly #guards: () => readonly PermissionRule[];
  #ownTools: readonly AgentTool[] = [];
  readonly #write: (message: JsonObject) => void;
  readonly #drained: () => Promise<void>;
  readonly #tellState: boolean;
  #rest: 'idle' | 'running' = 'idle';
  #told: SessionState = 'idle';
  #asking = 0;
  readonly #notices = new Map<string, boolean>();

  constructor(parts: {
    readonly id: string;
    readonly cwd: string;
    readonly flags: AgentFlags;
    readonly settings: Settings;
    readonly choices: Choices;
    readonly conversation: History;
    readonly transcript: Transcript;
    readonly lane: ControlLink;
    readonly hooks: HookDispatcher;
    readonly servers: McpServers;
    readonly queue: PromptQueue;
    readonly fallback: (() => Promise<ChosenModel>) | undefined;
    readonly builtins: Promise<readonly AgentTool[]>;
    /** Deny rules that hold whatever the host does to the policy: the closed paths of the sandbox. */
    readonly guards: () => readonly PermissionRule[];
    readonly write: (message: JsonObject) => void;
    readonly drained: () => Promise<void>;
    readonly tellState: boolean;
  }) {
    this.id = parts.id;
    this.cwd = parts.cwd;
    this.flags = parts.flags;
    this.settings = parts.settings;
    this.choices = parts.choices;
    this.conversation = parts.conversation;
    this.transcript = parts.transcript;
    this.lane = parts.lane;
    this.hooks = parts.hooks;
    this.servers = parts.servers;
    this.queue = parts.queue;
    this.fallback = parts.fallback;
    this.schema = parts.flags.jsonSchema;
    this.#builtins = parts.builtins;
    this.#guards = parts.guards;
    this.#write = parts.write;
    this.#drained = parts.drained;
    this.#tellState = parts.tellState;
  }

  get state(): SessionState {
    return this.#asking > 0 ? 'requires_action' : this.#rest;
  }

  /** Loads what a turn needs and the start did not; throws `invalid` for a schema that is none. */
  async prepare(): Promise<void> {
    const { schema } = this;
    const structured = schema
      ? [await (await import('../tools/structured-output.ts')).structuredTool(schema)]
      : [];
    this.#ownTools = [...(await this.#builtins), ...structured];
    await this.servers.ready();
  }

  /** All tools that the model may call now. */
  tools(): AgentTool[] {
    return [...this.#ownTools, ...this.servers.tools()];
  }

  /** Writes a message with the fields that all have, and returns its id. */
  emit(message: JsonObject, uuid: string = randomUUID()): string {
    this.#write({ ...message, uuid, session_id: this.id });
    return uuid;
  }

  /** Resolves when stdout has room: awaited by whoever produces much. */
  drained(): Promise<void> {
    return this.#drained();
  }

  setState(state: 'idle' | 'running'): void {
    this.#rest = state;
    this.#announce();
  }

  /** Says that a person is asked while `question` runs. */
  async waiting<T>(question: () => Promise<T>): Promise<T> {
    this.#asking++;
    this.#announce();
    try {
      return await question();
    } finally {
      this.#asking--;
      this.#announce();
    }
  }

  #announce(): void {
    const { state } = this;
    if (state === this.#told || !this.#tellState) return;
    this.#told = state;
    this.emit({ type: 'system', subtype: 'session_state_changed', state, sdk_host_only: true });
  }

  /** What calls are decided by: the choices of the host, and what it cannot take back. */
  get policy(): Policy {
    const { policy } = this.choices;
    return { ...policy, deny: [...policy.deny, ...this.#guards()] };
  }

  setPolicy(policy: Policy): void {
    const changed = policy.mode !== this.choices.policy.mode;
    this.choices.policy = policy;
    if (changed) {
      this.emit({ type: 'system', subtype: 'status', status: null, permissionMode: policy.mode });
    }
  }

  /** Says with the next turn that something was asked for and has no effect; each of them once. */
  announce(...notices: readonly string[]): void {
    for (const notice of notices) if (!this.#notices.has(notice)) this.#notices.set(notice, false);
  }

  /** Writes what was to be announced. */
  writeNotices(): void {
    for (const [notice, isWritten] of this.#notices) {
      if (!isWritten) this.emitInfo(notice, { tag: 'option_ignored', level: 'warning' });
      this.#notices.set(notice, true);
    }
  }

  /** A line for the person at the other end; never for the model. */
  emitInfo(content: string, extra: JsonObject = {}): void {
    this.emit({ type: 'system', subtype: 'informational', content, level: 'info', ...extra });
  }
}
