import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { type Block, NO_USAGE, type TokenUsage } from '../models/types.ts';
import { idsOf, type Prompt } from '../session/prompt-queue.ts';

/** Why a turn was interrupted. `now`: by an urgent message; `end`: the process is about to exit. */
export class TurnInterrupted extends DuolaneError {
  readonly by: 'user' | 'now' | 'end';

  constructor(by: TurnInterrupted['by'], message: string) {
    super('canceled', message);
    this.by = by;
  }
}

/** How a turn ended. */
export interface TurnEnding {
  readonly subtype:
    | 'success'
    | 'error_during_execution'
    | 'error_max_turns'
    | 'error_max_budget_usd'
    | 'error_max_structured_output_retries';
  readonly reason: string;
  /** For `success`: the text is an error message, so the result has `is_error`. */
  readonly failed?: boolean;
  readonly text?: string;
  readonly errors?: readonly string[];
  readonly status?: number | null;
  readonly structured?: unknown;
}

/** The state of one turn: counters, times and decisions. */
export class TurnState {
  readonly prompts: Prompt[];
  readonly startedAt: number = performance.now();
  readonly denials: JsonObject[] = [];
  readonly controller: AbortController = new AbortController();
  usage: TokenUsage = NO_USAGE;
  costUsd = 0;
  apiMs = 0;
  /** The number of model calls. */
  steps = 0;
  /** The number of `user` lines: tool results and synthetic messages. */
  userLines = 0;
  stopReason: string | null = null;
  lastText = '';
  /** Milliseconds since the start of the turn. */
  requestMs: number | undefined;
  firstTokenMs: number | undefined;
  /** Milliseconds since the start of the model call with the first token. */
  firstTokenOfCallMs: number | undefined;
  structured: { readonly value: unknown } | undefined;
  structuredFailures = 0;
  lastStructuredError = '';
  /** The reason, if a hook returned `continue: false`. */
  stoppedBy: string | undefined;
  /** The error, if a hook whose failure blocks has failed. */
  blockedBy: string | undefined;

  readonly #awaited = new Set<string>();

  constructor(prompts: readonly Prompt[]) {
    this.prompts = [...prompts];
  }

  /** Registers a call that waits for the host, until the returned function is called. */
  await(callId: string): () => void {
    this.#awaited.add(callId);
    return () => void this.#awaited.delete(callId);
  }

  /** The ids of the calls that wait for the host. */
  get awaited(): ReadonlySet<string> {
    return this.#awaited;
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }
  get uuids(): string[] {
    return idsOf(this.prompts);
  }
  now(): number {
    return Math.round(performance.now() - this.startedAt);
  }

  /** Why the turn was interrupted; undefined if it was not. */
  get interrupted(): TurnInterrupted | undefined {
    if (!this.signal.aborted) return undefined;
    const { reason } = this.signal;
    return reason instanceof TurnInterrupted
      ? reason
      : new TurnInterrupted('end', DuolaneError.from(reason).message);
  }

  addUsage(usage: TokenUsage, costUsd: number): void {
    this.usage = sumUsage(this.usage, usage);
    this.costUsd += costUsd;
  }

  deny(name: string, id: string, input: JsonObject): void {
    this.denials.push({ tool_name: name, tool_use_id: id, tool_input: input });
  }
}

export const sumUsage = (a: TokenUsage, b: TokenUsage): TokenUsage => ({
  input_tokens: a.input_tokens + b.input_tokens,
  output_tokens: a.output_tokens + b.output_tokens,
  cache_creation_input_tokens: a.cache_creation_input_tokens + b.cache_creation_input_tokens,
  cache_read_input_tokens: a.cache_read_input_tokens + b.cache_read_input_tokens,
});

/** The tool calls among the blocks of a message. */
export const callsIn = (blocks: readonly Block[]): readonly Block[] =>
  blocks.filter(({ type }) => type === 'tool_use');
