import type { Answer, Ask, InputRequest, SpentAnswer } from '../ask.ts';
import type { Failure } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import type { DurableSteps, Mark, OpenWait, StepMark, StepRecord } from './step-types.ts';

export type { Mark };

/**
 * A function that gets a turn and yields events, usually an `async function*`. It is called once
 * for each turn, and again with the same turn after it was suspended to wait or, if it is
 * `resumable` or has stored durable steps, after its process crashed. A further call goes on where
 * the log ends if the agent `continues`; otherwise it starts over, and the earlier text of the run
 * is void, except that an agent with durable steps repeats it. The runner repairs its events
 * (`normalizeAgent`). It must end when `ctx.signal` aborts.
 *
 * @example
 * ```ts
 * const echo: Agent = async function* (turn) {
 *   for (const part of turn.parts)
 *     if ('text' in part) yield { type: 'text.delta', id: 't', delta: part.text };
 * };
 * ```
 */
export type Agent = ((turn: Turn, ctx: AgentContext) => AsyncIterable<AgentEvent>) & {
  readonly resumable?: boolean;
  readonly continues?: boolean;
};

/** Where log lines go. A method must not throw; if it does, the logger is no longer used. */
export type Logger = Readonly<
  Record<'debug' | 'info' | 'warn' | 'error', (message: string, data?: JsonObject) => void>
>;

/** What an agent gets beside its turn. */
export interface AgentContext extends DurableSteps {
  /**
   * Aborts when the agent must end, and when its run is over. The reason is a DuolaneError:
   * `canceled`, `timeout`, `suspended` (the agent is called again later) or `fenced` (the claim is
   * lost, so nothing more is written).
   */
  readonly signal: AbortSignal;
  /** Asks a person, and resolves with the answer. The run may be suspended while it waits. */
  readonly ask: Ask;
  /** This task as the log had it when the run began: open calls, answers, session id. */
  readonly task: Snapshot;
  /** The other tasks of the same context, owner and tenant, newest first: earlier conversation. */
  history(): AsyncIterable<Snapshot>;
  /**
   * Returns a signed address for the event that `waitFor(id)` waits for: a POST of JSON to it
   * delivers the event. It expires after `expiresInMs` (7 days). Throws `unsupported` without a
   * server. Create it inside a step if it leaves the process, so that it stays the same.
   */
  eventUrl(id: string, options?: { readonly expiresInMs?: number }): string;
  /**
   * What the agent keeps with its task, to continue it on any machine. Missing if the agent runs
   * without a task log.
   */
  readonly storage?: AgentStorage;
  readonly logger: Logger;
  readonly trace?: { readonly traceparent: string; readonly tracestate?: string };
  /** Stores bytes that are too large for an event, if the server has a blob store. */
  readonly blobs?: BlobWriter;
}

/** Stores blobs of one task. They are deleted with it, and only its owner may read them. */
export interface BlobWriter {
  /**
   * Stores a blob; it is durable when this resolves. The `url` is relative to the server: put it
   * into a part of an artifact. Without a `signal`, the signal of the run ends it.
   */
  put(
    blob: { readonly mediaType: string; readonly filename?: string },
    bytes: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    options?: { readonly signal?: AbortSignal },
  ): Promise<{ readonly id: string; readonly bytes: number; readonly url: string }>;
}

/**
 * Values that an agent keeps with its task in the task log. Adapters keep the sessions and the
 * checkpoints of their frameworks here. The values are deleted with the task.
 */
export interface AgentStorage {
  /**
   * Stores values as JSON under their keys, in one commit, and resolves when they are durable. The
   * events that the agent has yielded are durable before them. A value that is undefined is
   * deleted. Throws `fenced` if another runner has claimed the task, and `invalid` for a key that
   * is not 1 to 512 visible ASCII characters, or a value that is not JSON.
   */
  set(values: Readonly<Record<string, unknown>>): Promise<void>;
  /**
   * Yields the values whose key starts with `prefix`, in the order of their keys; of this task, or
   * of one that `history` has yielded.
   */
  list(
    prefix: string,
    from?: Pick<Snapshot, 'task'>,
  ): AsyncIterable<readonly [key: string, value: unknown]>;
}

/**
 * One message of a person. With `parts` it starts a run. With only `answers` it continues the run
 * that asked: a live run gets them from `ask`; for a suspended run, the agent is called again with
 * its turn once no question is pending.
 */
export interface Turn {
  readonly agent: string;
  readonly task: string;
  readonly context: string;
  readonly owner?: string;
  readonly tenant?: string;
  readonly metadata?: JsonObject;
  /** Unique for an owner, tenant and agent. The same id again is the same turn of the same task. */
  readonly messageId: string;
  readonly parts: readonly Part[];
  readonly answers?: readonly Answer[];
}

/** A piece of a message or an artifact: text, JSON data, a URL or bytes. */
export type Part = (
  | { readonly text: string; readonly mediaType?: string }
  | { readonly data: unknown; readonly mediaType?: string }
  | { readonly url: string; readonly mediaType?: string; readonly filename?: string }
  | { readonly bytes: Uint8Array; readonly mediaType: string; readonly filename?: string }
) & {
  /** Passed through between sender and receiver; no code in between reads it. */
  readonly metadata?: JsonObject;
};

/**
 * An event that an agent yields. `at` (Unix ms) is set if absent; `path` names the sub-agents that
 * it comes from, outermost first.
 */
export type AgentEvent = AgentEventBody & {
  readonly at?: number;
  readonly path?: readonly string[];
};

/** The members of an event that depend on its type. */
export type AgentEventBody =
  | {
      readonly type: 'run.started';
      /** `messageId` of the turn of this run. */
      readonly turn?: string;
      /** Counts from 1. When the agent is called again, the run starts again with attempt + 1. */
      readonly attempt?: number;
      /** The earlier text of the run is void. An agent that `continues` may set it, too. */
      readonly discard?: boolean;
      readonly model?: string;
      readonly sessionId?: string;
    }
  | { readonly type: 'step.started'; readonly step: number; readonly name?: string }
  | {
      readonly type: 'step.finished';
      readonly step: number;
      readonly reason?: FinishReason;
      readonly usage?: Usage;
      readonly firstChunkMs?: number;
    }
  /** A model call is repeated. With `discard`, the text of this step is void. */
  | {
      readonly type: 'retry';
      readonly attempt: number;
      readonly delayMs?: number;
      readonly error: Failure;
      readonly discard: boolean;
    }
  /** A durable step or wait, as the log needs it. Only `ctx.step` and the like write it. */
  | ({ readonly type: 'step.stored' } & StepRecord)
  /** The run waits for a time or an event and holds no process. It starts again when that comes. */
  | { readonly type: 'run.suspended' }
  | {
      readonly type: 'run.finished';
      readonly outcome: Outcome;
      readonly text: string;
      readonly output?: unknown;
      readonly usage?: Usage;
      readonly error?: Failure;
      readonly pending?: readonly InputRequest[];
    }
  | {
      readonly type: 'text.delta' | 'reasoning.delta';
      readonly id: string;
      readonly delta: string;
    }
  | {
      readonly type: 'text.end' | 'reasoning.end';
      readonly id: string;
      readonly text: string;
      readonly signature?: string;
    }
  | { readonly type: 'tool.started'; readonly callId: string; readonly name: string }
  | { readonly type: 'tool.args'; readonly callId: string; readonly delta: string }
  | {
      readonly type: 'tool.called';
      readonly callId: string;
      readonly name: string;
      readonly args: unknown;
    }
  | {
      readonly type: 'tool.progress';
      readonly callId: string;
      readonly message?: string;
      readonly progress?: number;
      readonly total?: number;
      readonly data?: unknown;
    }
  | {
      readonly type: 'tool.completed';
      readonly callId: string;
      readonly name: string;
      readonly output: unknown;
      readonly ms?: number;
    }
  | {
      readonly type: 'tool.failed';
      readonly callId: string;
      readonly name: string;
      readonly error: Failure;
      readonly ms?: number;
    }
  | { readonly type: 'status'; readonly message: string; readonly data?: unknown }
  | {
      readonly type: 'artifact';
      readonly artifactId: string;
      readonly name?: string;
      readonly parts: readonly Part[];
      readonly append?: boolean;
      readonly last?: boolean;
      readonly metadata?: JsonObject;
    }
  | { readonly type: 'input.required'; readonly request: InputRequest }
  /** A frame of the pipe of an agent CLI, for the page. No other part of the system needs it. */
  | { readonly type: 'frame'; readonly frame: Frame; readonly callId?: string }
  | { readonly type: 'custom'; readonly name: string; readonly data: unknown };

/** How a run ends. */
export type Outcome = 'completed' | 'failed' | 'canceled' | 'rejected' | 'input-required';

/** Why a step ends. */
export type FinishReason = 'stop' | 'tool-calls' | 'length' | 'content-filter' | 'error' | 'other';

/** Tokens and cost. */
export type Usage = Readonly<
  Partial<
    Record<
      | 'inputTokens'
      | 'outputTokens'
      | 'reasoningTokens'
      | 'cacheReadTokens'
      | 'cacheWriteTokens'
      | 'costUsd',
      number
    >
  >
>;

/**
 * One line on the pipe of an agent CLI (`in` = CLI to host), and one line of a trace file. `bytes`
 * is the true size if `data` was truncated for the log (over 16 KiB). `lost`: the line could not be
 * written, so the CLI did not get this response.
 */
export interface Frame {
  readonly lane: 'message' | 'control';
  readonly direction: 'in' | 'out';
  readonly at: number;
  readonly data: JsonObject;
  readonly bytes?: number;
  readonly lost?: true;
}

/**
 * What a log stores: the valid events of the agent, and the two notes that anyone may append. It
 * has nothing of an output protocol; each of those is a pure encoder of these events.
 */
export type TaskEvent = AgentEvent | Note;

/** An event that anyone may append. Every other event has one writer, the claim holder. */
export type Note = (
  | { readonly type: 'turn.submitted'; readonly turn: Turn }
  | { readonly type: 'cancel.requested'; readonly reason?: string }
) & { readonly at?: number };

/**
 * The number of an entry: from 1, without gaps in a task. It is also the SSE `id`, `Last-Event-ID`
 * and the position of an append.
 */
export type Seq = number;

/** A stored, valid event with its number and time. It has at most 1 MiB. */
export type Entry = TaskEvent & { readonly seq: Seq; readonly at: number };

/** The state of a task: the last four are final. */
export type TaskState =
  | 'submitted'
  | 'working'
  | 'input-required'
  | 'auth-required'
  | 'completed'
  | 'failed'
  | 'canceled'
  | 'rejected';

/** A result of a task. */
export interface Artifact {
  readonly artifactId: string;
  readonly name?: string;
  readonly parts: readonly Part[];
  readonly metadata?: JsonObject;
}

/** A tool call that has not closed. */
export interface OpenCall {
  readonly callId: string;
  readonly name: string;
  readonly args: unknown;
  /** Its arguments are incomplete: the tool was never called, so the call can never be finished. */
  readonly partial?: true;
}

/** An earlier message of the agent: the text of a run, or a question that is no longer open. */
export interface SaidMessage {
  readonly kind: 'response' | 'question';
  /** `messageId` of the turn whose run wrote it, or the id of the question. */
  readonly id: string;
  readonly text: string;
  /** How many turns had been submitted by then: its position between them. */
  readonly turns: number;
}

/** The fold of a task's entries. It is small: it has no closed calls and no deltas. */
export interface Snapshot {
  readonly task: string;
  readonly context: string;
  readonly agent: string;
  readonly owner?: string;
  readonly seq: Seq;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly firstTextAt?: number;
  readonly state: TaskState;
  readonly canceling: boolean;
  readonly running: boolean;
  readonly attempt: number;
  readonly sessionId?: string;
  /** The first turn, then the others; of a long conversation only the newest of these. */
  readonly turns: readonly Turn[];
  /** How many turns are missing after the first one. The log has them. */
  readonly omitted?: number;
  /** The turn of the open or last run. */
  readonly current?: Turn;
  /** Turns with parts that have no run yet. */
  readonly unserved: readonly Turn[];
  readonly calls: readonly OpenCall[];
  readonly pending: readonly InputRequest[];
  /** Answers that are not spent. */
  readonly answers: readonly Answer[];
  /** The questions of `answers`: an answer decides only the question that the person saw. */
  readonly answered?: readonly InputRequest[];
  /** Answers whose calls have closed; an agent that starts over asks again. Only the newest. */
  readonly spent?: readonly SpentAnswer[];
  /** The text of the open or last run so far, without that of sub-agents (`path`). */
  readonly text: string;
  /** The earlier messages, oldest first; of a long conversation only the newest part. */
  readonly said?: readonly SaidMessage[];
  readonly artifacts: readonly Artifact[];
  /**
   * The artifacts of the last run that wrote any, however often its agent was called: the message
   * id of its turn, and the artifact ids in the order in which they were begun.
   */
  readonly delivered?: { readonly turn: string; readonly artifacts: readonly string[] };
  /** Durable steps of the open or last run. */
  readonly steps?: StepMark;
  /** Durable waits of the open run that are not over. */
  readonly waits?: readonly OpenWait[];
  /** The run is suspended until one of `waits` is over. */
  readonly suspended?: true;
  /** The usage of all runs of the task. */
  readonly usage?: Usage;
  /** The error of the last run, if it failed. */
  readonly error?: Failure;
  /** Bookkeeping of `advance`. Readers ignore it. */
  readonly mark?: Mark;
}

/**
 * An output protocol as a pure function that gets every entry from 1 on. To resume after entry N,
 * feed 1 to N and drop the output. The last output of entry N has the id `N`, an earlier one `N.k`.
 * Ids and times in the output come from the entry, so a replay is identical.
 */
export type Encoder<Out> = (entry: Entry) => readonly Out[];
