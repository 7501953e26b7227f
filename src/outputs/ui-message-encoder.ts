import type { InputRequest } from '../ask.ts';
import { advance } from '../event/fold/advance.ts';
import type { Entry, OpenCall, Part, Snapshot, Turn } from '../event/types.ts';
import { omitUndefined, type JsonObject } from '../json.ts';
import type { OutputMessage, OutputEncoder } from './types.ts';
import { dataUrl, partToJson } from './encode-parts.ts';

type Of<Type extends Entry['type']> = Extract<Entry, { readonly type: Type }>;
type EncodedEntry = Exclude<Entry, Of<'turn.submitted' | 'cancel.requested' | 'run.started'>>;

/** Options of `uiMessageEncoder()`. */
export interface UiMessageOptions {
  /**
   * The major version of the AI SDK of the client, if known. From 7 on, `reset-step` removes the
   * text of a failed attempt; older versions fail on it and get a `data-discard` part instead.
   */
  readonly version?: number;
}

const REFUSALS = { decline: 'declined', cancel: 'canceled' } as const;

/** The tool name of the calls that stand for questions without a call of the agent. */
const ASK = 'ask';

/**
 * Encodes entries as the UI message stream of the AI SDK (protocol v1, SDK 5 and later; approvals
 * from 6 on): one assistant message for each user message, across waits and restarts. The agent
 * runs the tools, so their parts are `providerExecuted` and no client runs or resends them; a
 * question for the result of a call passes that call to the client. Other questions are calls of a
 * tool `ask`, which the client answers with its output or an approval. Status, retries, artifacts
 * and structured output are data parts. Tool calls of sub-agents are encoded, their text is not.
 */
export function uiMessageEncoder({ version = 0 }: UiMessageOptions = {}): OutputEncoder {
  return new UiMessageEncoder(version >= 7);
}

class UiMessageEncoder implements OutputEncoder {
  openedAt = 0;
  readonly #resets: boolean;
  #now: Snapshot | undefined;
  #open = false;
  /** The id of the assistant message that the client builds. */
  #id = '';
  #messages = 0;
  #block: { readonly kind: 'text' | 'reasoning'; readonly id: string } | undefined;
  #inStep = false;
  /** Calls that have a part in the message. */
  readonly #parts = new Set<string>();
  /** Calls whose arguments are sent as deltas. */
  readonly #arguing = new Set<string>();
  /** Calls of the open step. */
  #stepParts: string[] = [];
  /** Questions that are calls of `ask` in the message. */
  readonly #asks = new Map<string, InputRequest>();
  /** Calls that a person declined. */
  readonly #denied = new Set<string>();

  constructor(resets: boolean) {
    this.#resets = resets;
  }

  get snapshot(): Snapshot | undefined {
    return this.#now;
  }

  readonly encode = (entry: Entry): readonly OutputMessage[] => {
    const before = this.#now;
    const now = (this.#now = advance(before, entry));
    if (entry.type === 'turn.submitted') return this.#submitted(entry, before, now);
    if (entry.type === 'run.started') return this.#started(entry, now);
    if (entry.type === 'cancel.requested') return [];
    return this.#open ? this.#encodeRun(entry, now) : [];
  };

  readonly pause = (): readonly OutputMessage[] =>
    this.#open ? [...this.#closing(), { type: 'finish', finishReason: 'tool-calls' }] : [];

  #submitted(
    { turn, seq }: Of<'turn.submitted'>,
    before: Snapshot | undefined,
    now: Snapshot,
  ): OutputMessage[] {
    const asked = before?.pending ?? [];
    const answers = asked.length > now.pending.length;
    if (this.#open && !answers) return [];
    const paused = answers ? this.pause() : [];
    this.#forget();
    const opening = this.#start(turn, seq, now);
    return [...paused, ...opening, ...this.#answered(turn, asked)];
  }

  #started({ seq, discard }: Of<'run.started'>, now: Snapshot): OutputMessage[] {
    if (!this.#open) return now.current ? this.#start(now.current, seq, now) : [];
    // The claim holder was lost and the run starts again: close for the client what is still open.
    const closing = this.#closing();
    this.#forget();
    return [...closing, ...(discard ? [discarded('message')] : [])];
  }

  /**
   * Answers inside a message of the client continue that message; any other turn starts a new one.
   */
  #start(turn: Turn, seq: number, now: Snapshot): OutputMessage[] {
    this.#open = true;
    if (this.#id === '' || !turn.messageId.startsWith(`${this.#id}/`)) {
      this.#messages += 1;
      this.#id = this.#messages === 1 ? now.task : `${now.task}.${this.#messages}`;
      this.openedAt = seq;
      this.#parts.clear();
      this.#arguing.clear();
      this.#asks.clear();
      return [this.#begin(now), ...this.#carryOver(now)];
    }
    return [this.#begin(now)];
  }

  #begin({ task, context }: Snapshot): OutputMessage {
    return { type: 'start', messageId: this.#id, messageMetadata: { task, context } };
  }

  /**
   * Repeats the open calls of an earlier message: their results follow in this one and need a part.
   */
  #carryOver(now: Snapshot): OutputMessage[] {
    return [
      ...now.calls.map((call) => (call.partial ? this.#calling(call) : this.#called(call))),
      ...now.pending.flatMap((request) => this.#ask(request, now)),
    ];
  }

  #answered({ answers = [] }: Turn, asked: readonly InputRequest[]): OutputMessage[] {
    return answers.flatMap(({ id, action, content }): OutputMessage[] => {
      const request = asked.find((each) => each.id === id);
      if (!request) return [];
      const callId = request.callId;
      if (action !== 'accept' && callId !== undefined) this.#denied.add(callId);
      if (!this.#asks.delete(id)) return [];
      // `providerExecuted` marks it as handled: otherwise a client that resends complete calls
      // would resend this one forever.
      const done = { toolCallId: id, providerExecuted: true };
      if (action === 'accept')
        return [{ type: 'tool-output-available', ...done, output: content ?? action }];
      return request.kind === 'approval'
        ? [{ type: 'tool-output-denied', toolCallId: id }]
        : [{ type: 'tool-output-error', ...done, errorText: REFUSALS[action] }];
    });
  }

  #encodeRun(entry: EncodedEntry, now: Snapshot): OutputMessage[] {
    const inner = entry.path !== undefined && entry.path.length > 0;
    switch (entry.type) {
      case 'step.started': {
        if (inner) return [];
        const ending = this.#endStep();
        this.#inStep = true;
        this.#stepParts = [];
        return [...ending, { type: 'start-step' }];
      }
      case 'step.finished':
        return inner ? [] : this.#endStep();
      case 'text.delta':
      case 'reasoning.delta':
        return inner ? [] : this.#delta(entry);
      case 'text.end':
      case 'reasoning.end':
        return inner ? [] : this.#endBlock();
      case 'tool.started':
        return [...this.#endBlock(), this.#calling(entry)];
      case 'tool.args':
        if (!this.#arguing.has(entry.callId)) return [];
        return [
          { type: 'tool-input-delta', toolCallId: entry.callId, inputTextDelta: entry.delta },
        ];
      case 'tool.called':
        return [...this.#endBlock(), this.#called(entry)];
      case 'tool.progress': {
        const { callId, message, progress, total, data } = entry;
        const value = omitUndefined({ toolCallId: callId, message, progress, total, data });
        return [{ type: 'data-tool-progress', data: value, transient: true }];
      }
      case 'tool.completed':
      case 'tool.failed':
        return this.#closed(entry);
      case 'retry':
        return this.#retry(entry, inner);
      case 'status': {
        const value = omitUndefined({ message: entry.message, data: entry.data });
        return [{ type: 'data-status', data: value, transient: true }];
      }
      case 'artifact':
        return artifactParts(entry);
      case 'custom':
        return [{ type: `data-${entry.name}`, data: entry.data ?? null }];
      case 'input.required':
        return this.#ask(entry.request, now);
      case 'run.finished':
        return this.#end(entry);
      case 'frame':
      case 'step.stored':
      case 'run.suspended':
        return [];
    }
  }

  #delta({ type, id, delta }: Of<'text.delta' | 'reasoning.delta'>): OutputMessage[] {
    const kind = type === 'text.delta' ? 'text' : 'reasoning';
    const opening: OutputMessage[] = [];
    if (this.#block?.id !== id || this.#block.kind !== kind) {
      opening.push(...this.#endBlock(), { type: `${kind}-start`, id });
      this.#block = { kind, id };
    }
    return [...opening, { type: `${kind}-delta`, id, delta }];
  }

  #calling({ callId, name }: Pick<OpenCall, 'callId' | 'name'>): OutputMessage {
    this.#parts.add(callId);
    this.#arguing.add(callId);
    this.#stepParts.push(callId);
    return {
      type: 'tool-input-start',
      toolCallId: callId,
      toolName: name,
      providerExecuted: true,
    };
  }

  #called({ callId, name, args }: Pick<OpenCall, 'callId' | 'name' | 'args'>): OutputMessage {
    this.#parts.add(callId);
    this.#stepParts.push(callId);
    return {
      type: 'tool-input-available',
      toolCallId: callId,
      toolName: name,
      input: args ?? {},
      providerExecuted: true,
    };
  }

  #closed(entry: Of<'tool.completed' | 'tool.failed'>): OutputMessage[] {
    const { callId: toolCallId, name } = entry;
    // A `reset-step` removed its part; a result without a part would fail the reader.
    const call = this.#parts.has(toolCallId)
      ? []
      : [this.#called({ callId: toolCallId, name, args: {} })];
    const denied = this.#denied.delete(toolCallId);
    if (entry.type === 'tool.completed')
      return [
        ...call,
        {
          type: 'tool-output-available',
          toolCallId,
          output: entry.output ?? null,
          providerExecuted: true,
        },
      ];
    return [
      ...call,
      denied
        ? { type: 'tool-output-denied', toolCallId }
        : {
            type: 'tool-output-error',
            toolCallId,
            errorText: entry.error.message,
            providerExecuted: true,
          },
    ];
  }

  #retry({ attempt, delayMs, error, discard }: Of<'retry'>, inner: boolean): OutputMessage[] {
    const data = omitUndefined({ attempt, delayMs, code: error.code });
    const notice = { type: 'data-retry', data, transient: true };
    if (!discard || inner) return [notice];
    if (!this.#resets) return [...this.#endBlock(), discarded('step'), notice];
    this.#block = undefined;
    this.#arguing.clear();
    for (const callId of this.#stepParts.splice(0)) this.#parts.delete(callId);
    return [{ type: 'reset-step' }, notice];
  }

  #ask(request: InputRequest, now: Snapshot): OutputMessage[] {
    const { id, kind, message, schema, data, callId } = request;
    const call = now.calls.find((each) => each.callId === callId && !each.partial);
    if (call && kind === 'approval')
      return [
        ...(this.#parts.has(call.callId) ? [] : [this.#called(call)]),
        { type: 'tool-approval-request', approvalId: id, toolCallId: call.callId },
      ];
    // A question about a call without a message asks the front end for the result of the call.
    if (call && kind === 'question' && message === undefined)
      return [{ ...this.#called(call), providerExecuted: false }];
    this.#asks.set(id, request);
    const input = omitUndefined({ kind, message, schema, data });
    return [
      ...this.#endBlock(),
      { type: 'tool-input-available', toolCallId: id, toolName: ASK, input },
      ...(kind === 'approval'
        ? [{ type: 'tool-approval-request', approvalId: id, toolCallId: id }]
        : []),
    ];
  }

  #end({ outcome, error, output, usage, text }: Of<'run.finished'>): OutputMessage[] {
    const waits = outcome === 'input-required';
    const closing = waits ? [...this.pause()] : this.#closing();
    this.#forget();
    this.#open = false;
    if (waits) return closing;
    const messageMetadata = omitUndefined({ outcome, usage });
    if (outcome === 'canceled') return [...closing, { type: 'abort', reason: text }];
    if (outcome === 'completed')
      return [
        ...closing,
        ...(output === undefined ? [] : [{ type: 'data-output', data: output }]),
        { type: 'finish', finishReason: 'stop', messageMetadata },
      ];
    return [
      ...closing,
      { type: 'error', errorText: error?.message ?? `The run was ${outcome}.` },
      { type: 'finish', finishReason: 'error', messageMetadata },
    ];
  }

  /** The messages that close everything that is open for the client. Changes no state. */
  #closing(): OutputMessage[] {
    return [...blockEnd(this.#block), ...(this.#inStep ? [{ type: 'finish-step' }] : [])];
  }

  #forget(): void {
    this.#block = undefined;
    this.#inStep = false;
  }

  #endBlock(): OutputMessage[] {
    const ended = blockEnd(this.#block);
    this.#block = undefined;
    return ended;
  }

  #endStep(): OutputMessage[] {
    const was = this.#inStep;
    this.#inStep = false;
    return was ? [...this.#endBlock(), { type: 'finish-step' }] : [];
  }
}

const blockEnd = (
  block: { readonly kind: 'text' | 'reasoning'; readonly id: string } | undefined,
): OutputMessage[] => (block ? [{ type: `${block.kind}-end`, id: block.id }] : []);

/** Voids the parts of the message before it, back to the start of the step or of the message. */
const discarded = (scope: 'step' | 'message'): OutputMessage => ({
  type: 'data-discard',
  data: { scope },
});

/** Files become file parts, the rest one data part; the chunks of one artifact share its id. */
function artifactParts({ artifactId, name, parts, append, last }: Of<'artifact'>): OutputMessage[] {
  const isFile = (part: Part): boolean => 'url' in part || 'bytes' in part;
  const rest = parts.filter((part) => !isFile(part)).map(partToJson);
  const data = omitUndefined({ artifactId, name, append, last, parts: rest });
  return [
    ...parts.flatMap((part): OutputMessage[] => {
      const mediaType = part.mediaType ?? 'application/octet-stream';
      if ('url' in part) return [{ type: 'file', url: part.url, mediaType }];
      return 'bytes' in part
        ? [{ type: 'file', url: dataUrl(part.bytes, mediaType), mediaType }]
        : [];
    }),
    ...(rest.length > 0 ? [{ type: 'data-artifact', data: data as JsonObject }] : []),
  ];
}
