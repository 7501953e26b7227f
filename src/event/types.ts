import type { Answer, Ask, InputRequest } from '../ask.ts';
import type { Failure } from '../errors.ts';
import type { JsonObject } from '../json.ts';

/**
 * Called once per turn, and again with the same turn after it slept for a person or, if
 * `resumable`, died. A further call goes on where the log ends if it `continues`; otherwise it
 * starts over, and the run's earlier text is void. It may be sloppy, `lawful` repairs it; it must
 * not outlive `ctx.signal`.
 */
export type Agent = ((turn: Turn, ctx: AgentContext) => AsyncIterable<AgentEvent>) & {
  readonly resumable?: boolean;
  readonly continues?: boolean;
};

export type Logger = Readonly<
  Record<'debug' | 'info' | 'warn' | 'error', (message: string, data?: JsonObject) => void>
>;

export interface AgentContext {
  /**
   * The reason is a DuolaneError: `canceled`, `timeout`, `suspended` (put to sleep) or `fenced`
   * (say no more).
   */
  readonly signal: AbortSignal;
  readonly ask: Ask;
  /** This task as the log had it when the run began: open calls, answers, session id. */
  readonly task: Snapshot;
  /** Other tasks of the same context, owner and tenant, newest first: the memory of a conversation. */
  history(): AsyncIterable<Snapshot>;
  readonly logger: Logger;
  readonly trace?: { readonly traceparent: string; readonly tracestate?: string };
}

/**
 * One thing a person sent. With `parts` it opens a run. With only `answers` it continues the run
 * that asked: a live one through its `ask`; an ended one, once nothing is pending, by calling the
 * agent again with the turn it was on.
 */
export interface Turn {
  readonly agent: string;
  readonly task: string;
  readonly context: string;
  readonly owner?: string;
  readonly tenant?: string;
  readonly metadata?: JsonObject;
  /** Unique per owner, tenant and agent; sent twice, it is the same turn of the same task. */
  readonly messageId: string;
  readonly parts: readonly Part[];
  readonly answers?: readonly Answer[];
}

export type Part = (
  | { readonly text: string; readonly mediaType?: string }
  | { readonly data: unknown; readonly mediaType?: string }
  | { readonly url: string; readonly mediaType?: string; readonly filename?: string }
  | { readonly bytes: Uint8Array; readonly mediaType: string; readonly filename?: string }
) & {
  /** What else the two ends have to say about it; nobody between reads it. */
  readonly metadata?: JsonObject;
};

/** What an agent yields. `at` (Unix ms) is stamped if absent; `path` names sub-agents, outermost first. */
export type AgentEvent = AgentEventBody & {
  readonly at?: number;
  readonly path?: readonly string[];
};

export type AgentEventBody =
  | {
      readonly type: 'run.started';
      /** `messageId` of the turn that this run serves. */
      readonly turn?: string;
      /** From 1; a run that is called again starts again with attempt + 1. */
      readonly attempt?: number;
      /** The run's earlier text is void. */
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
  /** Of a model call. With `discard`, the text of this step is void. */
  | {
      readonly type: 'retry';
      readonly attempt: number;
      readonly delayMs?: number;
      readonly error: Failure;
      readonly discard: boolean;
    }
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
  /** Control lane, for the page; never needed for correctness. */
  | { readonly type: 'frame'; readonly frame: Frame; readonly callId?: string }
  | { readonly type: 'custom'; readonly name: string; readonly data: unknown };

export type Outcome = 'completed' | 'failed' | 'canceled' | 'rejected' | 'input-required';

export type FinishReason = 'stop' | 'tool-calls' | 'length' | 'content-filter' | 'error' | 'other';

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
 * One line on the pipe of an agent CLI (`in` = CLI to host), and one line of a trace file.
 * `bytes`: the true size when `data` was cut for the log (over 16 KiB). `lost`: it could not be
 * written, nobody got this answer.
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
 * What is persisted: the agent's own lawful events, once, plus two notes that others may write.
 * Nothing of A2A; every output protocol is a pure encoder of this.
 */
export type TaskEvent = AgentEvent | Note;

/** Written by anyone; everything else in a log has one writer, the claim. */
export type Note = (
  | { readonly type: 'turn.submitted'; readonly turn: Turn }
  | { readonly type: 'cancel.requested'; readonly reason?: string }
) & { readonly at?: number };

/** 1-based, gap-free per task, the only number there is: SSE `id`, `Last-Event-ID`, append position. */
export type Seq = number;

/** A stored, lawful event: what everyone but an agent reads. At most 1 MiB. */
export type Entry = TaskEvent & { readonly seq: Seq; readonly at: number };

export type TaskState =
  | 'submitted'
  | 'working'
  | 'input-required'
  | 'auth-required'
  | 'completed'
  | 'failed'
  | 'canceled'
  | 'rejected';

export interface Artifact {
  readonly artifactId: string;
  readonly name?: string;
  readonly parts: readonly Part[];
  readonly metadata?: JsonObject;
}

export interface OpenCall {
  readonly callId: string;
  readonly name: string;
  readonly args: unknown;
  /** Its arguments were still arriving: the tool was never called, so nobody can finish this call. */
  readonly partial?: true;
}

/** Where the open step and the open run began: what `advance` needs to void and to sum. */
export interface Mark {
  /** Length of `text` when the step began; `retry` with `discard` goes back to it. */
  readonly text: number;
  /** Usage of the task before this attempt of the run. */
  readonly usage?: Usage;
  /** Between runs: how many turns had been submitted when the last one ended. */
  readonly turns?: number;
}

/** What the agent has said to the person before: the text of a run, or a question that is no longer open. */
export interface SaidMessage {
  readonly kind: 'response' | 'question';
  /** `messageId` of the turn whose run said it, or the id of the question. */
  readonly id: string;
  readonly text: string;
  /** How many turns had been submitted by then: its place between them. */
  readonly turns: number;
}

/** The fold of a log, kept small: closed calls and deltas are not in it. */
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
  /** The first one; then all others, of a long conversation only the newest. */
  readonly turns: readonly Turn[];
  /** How many turns are missing behind the first one; they are in the log. */
  readonly omitted?: number;
  /** The turn of the open or last run. */
  readonly current?: Turn;
  /** Turns with parts that no run has taken up yet. */
  readonly unserved: readonly Turn[];
  readonly calls: readonly OpenCall[];
  readonly pending: readonly InputRequest[];
  /** Not spent yet. */
  readonly answers: readonly Answer[];
  /** The questions of `answers`: an answer decides only what the person was shown. */
  readonly answered?: readonly InputRequest[];
  /** The text of the open or last run so far; what a sub-agent (`path`) says is not in it. */
  readonly text: string;
  /** What was said before that, the oldest first; of a long conversation only the newest part. */
  readonly said?: readonly SaidMessage[];
  readonly artifacts: readonly Artifact[];
  /**
   * What the last run that said any has said of them, however often its agent was called: the message id
   * of its turn, and the ids in the order in which they were begun.
   */
  readonly delivered?: { readonly turn: string; readonly artifacts: readonly string[] };
  /** Of all runs of the task. */
  readonly usage?: Usage;
  /** Of the last run, if it failed. */
  readonly error?: Failure;
  /** Bookkeeping of `advance`; readers leave it alone. */
  readonly mark?: Mark;
}

/**
 * An output protocol: pure, fed every entry from 1. Resuming after N is feeding 1..N and dropping
 * what comes out. The last output of entry N has the id `N`, an earlier one `N.k`. Ids and times
 * in it come from the entry, so a replay is identical.
 */
export type Encoder<Out> = (entry: Entry) => readonly Out[];
