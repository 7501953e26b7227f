import type { InputRequest } from '../ask.ts';
import { advance } from '../event/fold/advance.ts';
import type { Entry, Snapshot, Turn, Usage } from '../event/types.ts';
import { omitUndefined, type JsonObject } from '../json.ts';
import type { OutputMessage, OutputEncoder } from './types.ts';
import { partToJson, toolOutputText } from './encode-parts.ts';

type Of<Type extends Entry['type']> = Extract<Entry, { readonly type: Type }>;
type EncodedEntry = Exclude<Entry, Of<'turn.submitted' | 'cancel.requested' | 'run.started'>>;

/** A message of the agent whose end has not been sent yet. */
interface EncodedBlock {
  readonly kind: 'text' | 'reasoning';
  readonly id: string;
  readonly messageId: string;
}

/**
 * Encodes entries as AG-UI events of version 1.0, which clients of 0.0.59 can read. Each run goes
 * from `RUN_STARTED` to `RUN_FINISHED` or `RUN_ERROR`, and every message, call and step is closed
 * before its end. If the agent asks a person, the run ends with the outcome `interrupt` and all
 * open questions. `CUSTOM` carries what AG-UI has no event for: `status`, `retry`, `discard`
 * (messages that are void), `artifact`, `tool.progress`. The outcome `cancelled` is sent only to
 * clients that declared protocol 1; others get an end without an outcome. Tool calls of sub-agents
 * are encoded, their text is not.
 */
export function agUiEncoder(): OutputEncoder {
  return new AgUiEncoder();
}

class AgUiEncoder implements OutputEncoder {
  openedAt = 0;
  #now: Snapshot | undefined;
  /** The turn of the run that is open for the client. */
  #run: Turn | undefined;
  #block: EncodedBlock | undefined;
  #step: string | undefined;
  /** Calls whose arguments are not complete, and whether some deltas were sent. */
  readonly #arguing = new Map<string, boolean>();
  /**
   * The messages of the run. A discard of the run voids all, one of the step those from its start.
   */
  readonly #messageIds: string[] = [];
  #stepStart = 0;

  get snapshot(): Snapshot | undefined {
    return this.#now;
  }

  readonly encode = (entry: Entry): readonly OutputMessage[] => {
    const before = this.#now;
    const now = (this.#now = advance(before, entry));
    if (entry.type === 'turn.submitted') return this.#submitted(entry, before, now);
    if (entry.type === 'run.started') return this.#started(entry, now);
    if (entry.type === 'cancel.requested') return [];
    return this.#run ? this.#encodeRun(entry, now) : [];
  };

  readonly pause = (): readonly OutputMessage[] => {
    const now = this.#now;
    if (!this.#run || !now) return [];
    return [...this.#closing(now.updatedAt), this.#finished(now.updatedAt, interruptsOf(now))];
  };

  #submitted(
    { turn, at, seq }: Of<'turn.submitted'>,
    before: Snapshot | undefined,
    now: Snapshot,
  ): OutputMessage[] {
    const answers = before !== undefined && before.pending.length > now.pending.length;
    if (this.#run && !answers) return [];
    // The interrupt lists the questions as they were before this entry answered them.
    this.#now = before;
    const paused = answers ? this.pause() : [];
    this.#now = now;
    this.#forget();
    return [...paused, this.#open(turn, now, seq, at)];
  }

  #started({ at, seq, discard }: Of<'run.started'>, now: Snapshot): OutputMessage[] {
    const turn = now.current;
    if (!turn) return [];
    if (!this.#run) return [this.#open(turn, now, seq, at)];
    // The claim holder was lost and the run starts again: close for the client what is still open.
    const closing = this.#closing(at);
    this.#forget();
    return [...closing, ...(discard ? this.#discard(0, at) : [])];
  }

  #open(turn: Turn, { context }: Snapshot, seq: number, at: number): OutputMessage {
    this.#run = turn;
    this.openedAt = seq;
    this.#messageIds.length = this.#stepStart = 0;
    return event('RUN_STARTED', at, { threadId: context, runId: runIdOf(turn) });
  }

  #encodeRun(entry: EncodedEntry, now: Snapshot): OutputMessage[] {
    const { at } = entry;
    const inner = entry.path !== undefined && entry.path.length > 0;
    switch (entry.type) {
      case 'step.started': {
        if (inner) return [];
        const ending = this.#endStep(at);
        this.#step = entry.name ?? `step ${entry.step}`;
        this.#stepStart = this.#messageIds.length;
        return [...ending, event('STEP_STARTED', at, { stepName: this.#step })];
      }
      case 'step.finished':
        return inner ? [] : this.#endStep(at);
      case 'text.delta':
      case 'reasoning.delta':
        return inner ? [] : this.#delta(entry, now);
      case 'text.end':
      case 'reasoning.end':
        return inner ? [] : this.#endBlock(at);
      case 'tool.started':
        this.#arguing.set(entry.callId, false);
        return [...this.#endBlock(at), callStart(entry)];
      case 'tool.args':
        if (!this.#arguing.has(entry.callId)) return [];
        this.#arguing.set(entry.callId, true);
        return [event('TOOL_CALL_ARGS', at, { toolCallId: entry.callId, delta: entry.delta })];
      case 'tool.called':
        return [...this.#endBlock(at), ...this.#called(entry)];
      case 'tool.completed':
        return [
          ...this.#endArgs(entry.callId, at),
          resultOf(entry, now, toolOutputText(entry.output)),
        ];
      case 'tool.failed': {
        const { code, message } = entry.error;
        const failed = { ...resultOf(entry, now, message), metadata: { failed: true, code } };
        return [...this.#endArgs(entry.callId, at), failed];
      }
      case 'retry': {
        const { attempt, delayMs, error, discard } = entry;
        const value = omitUndefined({ attempt, delayMs, code: error.code });
        return [
          ...(discard && !inner
            ? [...this.#endBlock(at), ...this.#discard(this.#stepStart, at)]
            : []),
          event('CUSTOM', at, { name: 'retry', value }),
        ];
      }
      case 'run.finished':
        return this.#end(entry);
      case 'input.required':
      case 'frame':
      case 'step.stored':
      case 'run.suspended':
        return []; // questions are in the outcome of the run
      case 'custom':
        return [event('CUSTOM', at, { name: entry.name, value: entry.data ?? null })];
      case 'status':
      case 'artifact':
      case 'tool.progress':
        return [event('CUSTOM', at, { name: entry.type, value: withoutLogFields(entry) })];
    }
  }

  #delta({ type, id, delta, seq, at }: Of<'text.delta' | 'reasoning.delta'>, now: Snapshot) {
    const kind = type === 'text.delta' ? 'text' : 'reasoning';
    const opening: OutputMessage[] = [];
    if (this.#block?.id !== id || this.#block.kind !== kind) {
      opening.push(...this.#endBlock(at));
      const messageId = `${now.task}/${seq}`;
      this.#block = { kind, id, messageId };
      this.#messageIds.push(messageId);
      if (kind === 'text')
        opening.push(event('TEXT_MESSAGE_START', at, { messageId, role: 'assistant' }));
      else
        opening.push(
          event('REASONING_START', at, { messageId }),
          event('REASONING_MESSAGE_START', at, { messageId, role: 'reasoning' }),
        );
    }
    const { messageId } = this.#block as EncodedBlock;
    const contentType = kind === 'text' ? 'TEXT_MESSAGE_CONTENT' : 'REASONING_MESSAGE_CONTENT';
    return [...opening, event(contentType, at, { messageId, delta })];
  }

  #called({ callId, name, args, at }: Of<'tool.called'>): OutputMessage[] {
    const streamed = this.#arguing.get(callId);
    this.#arguing.delete(callId);
    return [
      ...(streamed === undefined ? [callStart({ callId, name, at })] : []),
      ...(streamed
        ? []
        : [
            event('TOOL_CALL_ARGS', at, {
              toolCallId: callId,
              delta: JSON.stringify(args ?? {}),
            }),
          ]),
      event('TOOL_CALL_END', at, { toolCallId: callId }),
    ];
  }

  #end({ outcome, at, error, output, usage }: Of<'run.finished'>): OutputMessage[] {
    const closing = this.#closing(at);
    const used = usageOf(usage);
    const now = this.#now as Snapshot;
    const last = (): OutputMessage => {
      switch (outcome) {
        case 'input-required':
          return this.#finished(at, { ...interruptsOf(now), ...used });
        case 'completed':
          return this.#finished(at, { ...(output !== undefined && { result: output }), ...used });
        case 'canceled':
          return this.#finished(at, {
            ...(hasProtocol1(this.#run) && { outcome: { type: 'cancelled' } }),
            ...used,
          });
        case 'failed':
        case 'rejected':
          return event('RUN_ERROR', at, {
            message: error?.message ?? `The run was ${outcome}.`,
            code: error?.code ?? outcome,
            ...used,
          });
      }
    };
    const ended = [...closing, last()];
    this.#forget();
    this.#run = undefined;
    return ended;
  }

  #finished(at: number, more: JsonObject): OutputMessage {
    const { context } = this.#now as Snapshot;
    return event('RUN_FINISHED', at, {
      threadId: context,
      runId: runIdOf(this.#run as Turn),
      ...more,
    });
  }

  /** The events that close everything that is open for the client. Changes no state. */
  #closing(at: number): OutputMessage[] {
    return [
      ...blockEnd(this.#block, at),
      ...[...this.#arguing.keys()].map((toolCallId) => event('TOOL_CALL_END', at, { toolCallId })),
      ...(this.#step === undefined ? [] : [event('STEP_FINISHED', at, { stepName: this.#step })]),
    ];
  }

  /** Resets the state after `#closing`. */
  #forget(): void {
    this.#block = undefined;
    this.#step = undefined;
    this.#arguing.clear();
  }

  #endBlock(at: number): OutputMessage[] {
    const ended = blockEnd(this.#block, at);
    this.#block = undefined;
    return ended;
  }

  #endArgs(callId: string, at: number): OutputMessage[] {
    return this.#arguing.delete(callId) ? [event('TOOL_CALL_END', at, { toolCallId: callId })] : [];
  }

  #endStep(at: number): OutputMessage[] {
    const stepName = this.#step;
    this.#step = undefined;
    return stepName === undefined ? [] : [event('STEP_FINISHED', at, { stepName })];
  }

  #discard(from: number, at: number): OutputMessage[] {
    const messageIds = this.#messageIds.splice(from);
    return messageIds.length === 0
      ? []
      : [event('CUSTOM', at, { name: 'discard', value: { messageIds } })];
  }
}

const event = (type: string, at: number, fields: JsonObject): OutputMessage => ({
  type,
  ...fields,
  timestamp: at,
});

function blockEnd(block: EncodedBlock | undefined, at: number): OutputMessage[] {
  if (!block) return [];
  const { kind, messageId } = block;
  if (kind === 'text') return [event('TEXT_MESSAGE_END', at, { messageId })];
  return [
    event('REASONING_MESSAGE_END', at, { messageId }),
    event('REASONING_END', at, { messageId }),
  ];
}

const callStart = ({
  callId,
  name,
  at,
}: Pick<Of<'tool.started'>, 'callId' | 'name' | 'at'>): OutputMessage =>
  event('TOOL_CALL_START', at, { toolCallId: callId, toolCallName: name });

const resultOf = (
  { callId, seq, at }: Of<'tool.completed' | 'tool.failed'>,
  { task }: Snapshot,
  content: string,
): OutputMessage =>
  event('TOOL_CALL_RESULT', at, {
    messageId: `${task}/${seq}`,
    toolCallId: callId,
    content,
    role: 'tool',
  });

/** The outcome of a run that waits for a person. */
const interruptsOf = ({ pending }: Snapshot): JsonObject =>
  pending.length === 0
    ? {}
    : { outcome: { type: 'interrupt', interrupts: pending.map(interruptOf) } };

const interruptOf = ({ id, kind, message, callId, schema, data }: InputRequest): JsonObject =>
  omitUndefined({
    id,
    reason: kind,
    message,
    toolCallId: callId,
    responseSchema: schema,
    metadata: data === undefined ? undefined : { data },
  });

/** The run id that the client sent, or the message id. */
const runIdOf = ({ metadata, messageId }: Turn): string =>
  typeof metadata?.['runId'] === 'string' ? metadata['runId'] : messageId;

function hasProtocol1(turn: Turn | undefined): boolean {
  const version = turn?.metadata?.['protocolVersion'];
  return typeof version === 'string' && /^1(\.|$)/.test(version);
}

function usageOf(usage: Usage | undefined): JsonObject {
  const { inputTokens, outputTokens, reasoningTokens, cacheReadTokens } = usage ?? {};
  const counts = omitUndefined({
    inputTokens: count(inputTokens),
    outputTokens: count(outputTokens),
    reasoningTokens: count(reasoningTokens),
    cachedInputTokens: count(cacheReadTokens),
  });
  return Object.keys(counts).length > 0 ? { usage: [counts] } : {};
}

/**
 * Omits counts that are not integers: the schema of AG-UI would refuse the last event of the run.
 */
const count = (n: number | undefined): number | undefined =>
  n !== undefined && Number.isSafeInteger(n) && n >= 0 ? n : undefined;

/** The entry without the members that only the log needs. */
function withoutLogFields(entry: Of<'status' | 'artifact' | 'tool.progress'>): JsonObject {
  const { type: _type, seq: _seq, at: _at, path: _path, ...value } = entry;
  return 'parts' in value ? { ...value, parts: value.parts.map(partToJson) } : value;
}
