import { advance } from '../event/fold/advance.ts';
import type { Entry, Snapshot, Usage } from '../event/types.ts';
import { omitUndefined, type JsonObject } from '../json.ts';
import { ApiMessages } from './api-messages.ts';
import { toolResultContent, RETRY_REASONS, toolBlock, usageOf } from './messages-api.ts';
import type { OutputMessage, OutputEncoder } from './types.ts';
import { partToJson } from './encode-parts.ts';

type Of<Type extends Entry['type']> = Extract<Entry, { readonly type: Type }>;
type EncodedEntry = Exclude<Entry, Of<'turn.submitted' | 'cancel.requested' | 'run.started'>>;

/**
 * Encodes entries as the lines that an agent CLI writes with `--output-format stream-json
 * --include-partial-messages`: `system init`, `stream_event`s with the complete block after its
 * deltas, tool results as `user`, and one `result`. If the agent asks a person, the stream ends
 * with a `result` whose `terminal_reason` is `tool_deferred`, with the questions in `pending`. The
 * session id is the context. Sub-agents get complete blocks only, with the `parent_tool_use_id` of
 * their call.
 */
export function streamJsonEncoder(): OutputEncoder {
  return new StreamJsonEncoder();
}

class StreamJsonEncoder implements OutputEncoder {
  openedAt = 0;
  #now: Snapshot | undefined;
  #open = false;
  #startedAt = 0;
  #firstTextAt: number | undefined;
  #api = new ApiMessages('', (fields) => fields);

  get snapshot(): Snapshot | undefined {
    return this.#now;
  }

  readonly encode = (entry: Entry): readonly OutputMessage[] => {
    const before = this.#now;
    const now = (this.#now = advance(before, entry));
    switch (entry.type) {
      case 'turn.submitted': {
        const answers = before !== undefined && before.pending.length > now.pending.length;
        if (this.#open && !answers) return [];
        const paused = answers ? this.#ending(before, entry.at) : [];
        this.#begin(entry);
        return paused;
      }
      case 'run.started': {
        const closing = this.#api.closeAll();
        if (!this.#open) this.#begin(entry);
        this.#api.model = entry.model ?? this.#api.model;
        return [...closing, this.#line({ type: 'system', ...this.#init(entry) })];
      }
      case 'cancel.requested':
        return [];
      default:
        return this.#encodeRun(entry);
    }
  };

  readonly pause = (): readonly OutputMessage[] =>
    this.#now ? this.#ending(this.#now, this.#now.updatedAt) : [];

  #begin({ seq, at }: Entry): void {
    this.#open = true;
    this.openedAt = seq;
    this.#startedAt = at;
    this.#firstTextAt = undefined;
    const { model } = this.#api;
    this.#api = new ApiMessages((this.#now as Snapshot).task, (fields) => this.#line(fields));
    this.#api.model = model;
  }

  #init({ sessionId }: Of<'run.started'>): JsonObject {
    return {
      subtype: 'init',
      model: this.#api.model,
      cwd: '',
      tools: [],
      mcp_servers: [],
      slash_commands: [],
      permissionMode: 'default',
      apiKeySource: 'none',
      ...(sessionId !== undefined && { agent_session_id: sessionId }),
    };
  }

  #encodeRun(entry: EncodedEntry): OutputMessage[] {
    const parent = entry.path?.at(-1) ?? null;
    switch (entry.type) {
      case 'step.started':
        return [...this.#api.close(parent), ...this.#api.start(parent, entry.seq)];
      case 'step.finished':
        return this.#api.close(parent, entry);
      case 'text.delta':
        this.#firstTextAt ??= entry.at;
        return this.#api.delta(parent, entry, 'text', { type: 'text_delta', text: entry.delta });
      case 'reasoning.delta':
        return this.#api.delta(parent, entry, 'thinking', {
          type: 'thinking_delta',
          thinking: entry.delta,
        });
      case 'text.end':
      case 'reasoning.end':
        return this.#api.endBlock(parent, entry);
      case 'tool.started':
        return this.#api.openBlock(parent, entry.seq, entry.callId, toolBlock(entry));
      case 'tool.args':
        return this.#api.args(parent, entry.callId, entry.delta);
      case 'tool.called':
        return this.#api.called(parent, entry);
      case 'tool.completed':
        return [
          this.#result(parent, entry.callId, toolResultContent(entry.output), {
            tool_use_result: entry.output ?? null,
          }),
        ];
      case 'tool.failed': {
        const { message } = entry.error;
        return [
          this.#result(
            parent,
            entry.callId,
            message,
            { tool_use_result: `Error: ${message}` },
            true,
          ),
        ];
      }
      case 'tool.progress': {
        const { callId, message, progress, total } = entry;
        const fields = omitUndefined({ tool_use_id: callId, message, progress, total });
        return [this.#line({ type: 'tool_progress', parent_tool_use_id: parent, ...fields })];
      }
      case 'retry': {
        const { attempt, delayMs, error, discard } = entry;
        const fields = omitUndefined({
          attempt,
          retry_delay_ms: delayMs,
          error_status: error.status,
        });
        const reason = RETRY_REASONS[error.code] ?? error.code;
        if (discard) this.#api.forget(parent);
        return [this.#line({ type: 'system', subtype: 'api_retry', ...fields, error: reason })];
      }
      case 'status':
        return [this.#line({ type: 'system', subtype: 'informational', content: entry.message })];
      case 'artifact': {
        const { artifactId, name, append, last } = entry;
        const fields = omitUndefined({ artifact_id: artifactId, name, append, last });
        const parts = entry.parts.map(partToJson);
        return [this.#line({ type: 'system', subtype: 'artifact', ...fields, parts })];
      }
      case 'run.finished':
        return this.#finish(entry);
      case 'input.required':
      case 'frame':
      case 'step.stored':
      case 'run.suspended':
      case 'custom':
        return [];
    }
  }

  #result(
    parent: string | null,
    tool_use_id: string,
    content: unknown,
    extra: JsonObject,
    is_error = false,
  ): OutputMessage {
    const block = { type: 'tool_result', tool_use_id, content, ...(is_error && { is_error }) };
    const message = { role: 'user', content: [block] };
    return this.#line({ type: 'user', message, parent_tool_use_id: parent, ...extra });
  }

  #finish(entry: Of<'run.finished'>): OutputMessage[] {
    const now = this.#now as Snapshot;
    if (entry.outcome === 'input-required') {
      const ending = this.#ending(now, entry.at);
      this.#open = false;
      return ending;
    }
    const closing = this.#api.closeAll();
    this.#open = false;
    return [...closing, this.#line(this.#ended(entry))];
  }

  #ended({ outcome, text, error, output, usage, at }: Of<'run.finished'>): OutputMessage {
    const base = this.#figures(at, usage);
    if (outcome === 'completed')
      return {
        type: 'result',
        subtype: 'success',
        is_error: false,
        result: text,
        stop_reason: 'end_turn',
        terminal_reason: 'completed',
        ...base,
        ...(output !== undefined && { structured_output: output }),
      };
    return {
      type: 'result',
      subtype: error?.code === 'max_steps' ? 'error_max_turns' : 'error_during_execution',
      is_error: true,
      errors: [error?.message ?? text],
      stop_reason: null,
      terminal_reason: outcome === 'canceled' ? 'aborted_streaming' : 'model_error',
      ...(error?.status !== undefined && { api_error_status: error.status }),
      ...base,
    };
  }

  /** The lines that end a stream while the task waits for a person. Changes no state. */
  #ending(now: Snapshot, at: number): OutputMessage[] {
    if (!this.#open) return [];
    const { pending, text } = now;
    return [
      ...this.#api.closing(),
      this.#line({
        type: 'result',
        subtype: 'success',
        is_error: false,
        result: text,
        stop_reason: 'tool_use',
        terminal_reason: 'tool_deferred',
        pending,
        ...this.#figures(at, now.usage),
      }),
    ];
  }

  /** The measured members of a `result`. */
  #figures(at: number, usage: Usage | undefined): JsonObject {
    const first = this.#firstTextAt;
    return {
      duration_ms: Math.max(0, at - this.#startedAt),
      num_turns: this.#api.steps,
      permission_denials: [],
      ...(first !== undefined && { ttft_ms: Math.max(0, first - this.#startedAt) }),
      usage: usageOf(usage),
      total_cost_usd: usage?.costUsd ?? 0,
    };
  }

  #line(fields: OutputMessage): OutputMessage {
    return { ...fields, session_id: (this.#now as Snapshot).context };
  }
}
