import { textUpdates, throttle, type TextUpdate } from '../../event/throttle.ts';
import type { Encoder, Entry, Snapshot } from '../../event/types.ts';
import type { Checkpoint } from '../../task/log/checkpoints.ts';
import { nameId } from '../../task/name-id.ts';
import { SlimFold } from './slim-fold.ts';
import type { A2APart, A2ATask, A2AStreamEvent } from './model.ts';
import {
  agentMessage,
  encodeArtifact,
  encodeStatus,
  encodeTask,
  responseArtifact,
  responseId,
  STATUS_TEXT_CHARS,
  timestamp,
  type EncodeTaskOptions,
} from './task-encoder.ts';

/**
 * How many characters of a run's text a stream keeps after the client has received it. Most retries
 * discard less than this; for a longer one the stream reads the task again (`lacks`, `restore`).
 */
const KEPT_CHARS = 1024;

/** How A2A clients see the text of a run. */
export interface TextOptions {
  /**
   * By default the text is an artifact that grows by appending, with `lastChunk` on its last chunk.
   * The last status does not repeat it, since clients that show both would show it twice.
   * `artifact`: the same, and the last status carries the complete text too. `status`: one working
   * message is updated in place and always carries the complete text; at the end the text is also
   * sent as an artifact and in the last status.
   */
  readonly pattern?: 'artifact' | 'status';
  /** The name of that artifact; `response` by default. */
  readonly artifact?: string;
  /**
   * Sends an update when the text length passes a multiple of this. Without it an artifact gets one
   * update per text entry of the log.
   */
  readonly chars?: number;
  /** With `status`: `head120` shows only the beginning until the text is complete. */
  readonly preview?: 'whole' | 'head120';
}

/** Encodes the entries of one task, in order from entry 1, as A2A stream events. */
export interface A2AEncoder {
  readonly encode: Encoder<A2AStreamEvent>;
  /** The fold of the entries encoded so far; undefined before the first one. */
  readonly snapshot: Snapshot | undefined;
  /** The current task: what a client has after it folded every event so far. */
  task(view?: EncodeTaskOptions): A2ATask;
  /**
   * Drops texts, arguments and artifacts from memory, now and for later entries. Call it once the
   * client has received the task; `task()` is incomplete from then on.
   */
  forget(): void;
  /** Whether encoding this entry needs text that `forget` dropped. Call `restore` first if so. */
  lacks(entry: Entry): boolean;
  /**
   * Begins behind entry 1: with a complete task, which the client gets, or with a checkpoint for a
   * client that has every event up to it. Returns false if the text options need every entry.
   */
  seek(start: Checkpoint | Snapshot): boolean;
  /** Gives back the complete task, folded up to the entry before the next one. */
  restore(complete: Snapshot): void;
}

/**
 * Creates an encoder from a task's log to A2A stream events: the task as `submitted`, then progress
 * and artifacts in the order of the log, then one status that ends the stream. The text of a run is
 * one artifact named `response` that grows by appending, so the bytes sent are linear in its
 * length; after a retry that discards text, the next update replaces the artifact. `TextOptions`
 * has the other forms. Text of sub-agents, reasoning and frames are not encoded.
 *
 * @example
 * const encoder = a2aEncoder();
 * for await (const entry of log.read(task, 0))
 *   for (const event of encoder.encode(entry)) console.log(event);
 */
export const a2aEncoder = (options: TextOptions = {}): A2AEncoder => new LogEncoder(options);

class LogEncoder implements A2AEncoder {
  readonly encode: Encoder<A2AStreamEvent>;
  readonly #fold: SlimFold;
  readonly #text: TextOptions;
  readonly #inStatus: boolean;
  /** The artifact id of this run's text. */
  #response = '';
  /** Whether the client has received some of that text. */
  #opened = false;
  /**
   * Whether a retry discarded text that the client has, so that the next update must replace it.
   */
  #stale = false;

  constructor(options: TextOptions) {
    const { pattern, chars } = options;
    this.#text = options;
    // With a pattern the last status repeats the text, unless it is longer than STATUS_TEXT_CHARS:
    // one more character is enough to know that it is longer.
    this.#fold = new SlimFold(pattern === undefined ? KEPT_CHARS : STATUS_TEXT_CHARS + 1);
    this.#inStatus = pattern === 'status';
    const all = (entry: Entry): readonly A2AStreamEvent[] => this.#eventsOf(entry);
    const paced = this.#inStatus
      ? this.#inPlace(options)
      : chars === undefined
        ? all
        : throttle(all, { chars });
    this.encode = (entry) => {
      this.#advance(entry);
      return paced(entry);
    };
  }

  get snapshot(): Snapshot | undefined {
    return this.#fold.snapshot;
  }

  forget(): void {
    // With the `status` pattern every update carries the complete text.
    if (!this.#inStatus) this.#fold.forget();
  }

  lacks(entry: Entry): boolean {
    return this.#fold.lacks(entry);
  }

  restore(complete: Snapshot): void {
    this.#fold.restore(complete);
  }

  seek(start: Checkpoint | Snapshot): boolean {
    const { pattern, chars } = this.#text;
    if (pattern !== undefined || chars !== undefined) return false;
    const isSlim = 'snapshot' in start;
    const snapshot = isSlim ? start.snapshot : start;
    const length = isSlim ? start.chars : snapshot.text.length;
    this.#fold.seek(snapshot, length, isSlim);
    if (snapshot.current) this.#response = responseId(snapshot.current);
    this.#opened = length > 0 && (!isSlim || start.isTextSent);
    return true;
  }

  task(view?: EncodeTaskOptions): A2ATask {
    return encodeTask(this.snapshot as Snapshot, { ...view, text: this.#text });
  }

  #advance(entry: Entry): void {
    const before = this.snapshot;
    const now = this.#fold.advance(entry);
    if (entry.type !== 'run.started' || before?.current?.messageId === now.current?.messageId)
      return;
    this.#response = responseId(now.current);
    this.#opened = this.#stale = false;
  }

  #eventsOf(entry: Entry): readonly A2AStreamEvent[] {
    const now = this.snapshot as Snapshot;
    switch (entry.type) {
      case 'turn.submitted':
        return entry.seq === 1 ? [{ task: encodeTask(now) }] : [];
      case 'run.started':
        this.#stale ||= this.#opened && entry.discard === true;
        return [statusEvent(now)];
      case 'retry':
        if (!entry.path?.length) this.#stale ||= this.#opened && entry.discard;
        return [
          progressStatus(now, `The model did not answer (${entry.error.code}); trying again.`),
        ];
      case 'text.delta':
        return entry.path?.length || this.#inStatus ? [] : [this.#textUpdate(now, entry.delta)];
      case 'status':
        return [progressStatus(now, entry.message, entry.data)];
      case 'tool.called': {
        const { callId, name } = entry;
        return [progressStatus(now, `Calling ${name}`, { tool: { callId, name } })];
      }
      case 'tool.progress':
        return entry.message === undefined ? [] : [progressStatus(now, entry.message)];
      case 'tool.failed': {
        const { callId, name } = entry;
        return [progressStatus(now, `${name} failed`, { tool: { callId, name, failed: true } })];
      }
      case 'artifact':
        return [
          {
            artifactUpdate: {
              taskId: now.task,
              contextId: now.context,
              artifact: encodeArtifact(entry),
              ...(entry.append && { append: true }),
              ...(entry.last && { lastChunk: true }),
            },
          },
        ];
      case 'input.required':
        return [statusEvent(now)];
      case 'run.finished': {
        const waits = entry.outcome === 'input-required';
        return [...this.#closing(now, waits), ...(waits ? [] : [statusEvent(now, this.#text)])];
      }
      case 'cancel.requested':
      case 'step.started':
      case 'step.finished':
      case 'step.stored':
      case 'run.suspended':
      case 'text.end':
      case 'reasoning.delta':
      case 'reasoning.end':
      case 'tool.started':
      case 'tool.args':
      case 'tool.completed':
      case 'frame':
      case 'custom':
        return [];
    }
  }

  #textUpdate(now: Snapshot, delta: string, lastChunk = false): A2AStreamEvent {
    // With the `status` pattern no delta was sent as an artifact, so the artifact carries the
    // complete text, also when the run had been suspended in between.
    const append = this.#opened && !this.#stale && !this.#inStatus;
    this.#opened = true;
    this.#stale = false;
    const artifact = responseArtifact(
      this.#response,
      append ? delta : this.#fold.textUpTo(delta),
      this.#text.artifact,
    );
    return {
      artifactUpdate: {
        taskId: now.task,
        contextId: now.context,
        artifact,
        ...(append && { append }),
        ...(lastChunk && { lastChunk }),
      },
    };
  }

  /**
   * The last artifact update of a run: discarded text, the end mark, or text sent as status only.
   */
  #closing(now: Snapshot, waits: boolean): readonly A2AStreamEvent[] {
    // ADK shows an appended text as the final response only after a chunk with `lastChunk`.
    const marked = !waits && now.text !== '';
    const unsent = this.#inStatus && now.text !== '';
    return this.#stale || marked || unsent ? [this.#textUpdate(now, '', marked)] : [];
  }

  /** An encoder for the `status` pattern: updates of the text message, then every other event. */
  #inPlace(options: TextOptions): Encoder<A2AStreamEvent> {
    const updates = textUpdates(options);
    return (entry) => [
      ...updates(entry).flatMap((update) => this.#update(update)),
      ...this.#eventsOf(entry),
    ];
  }

  #update({ text, done }: TextUpdate): readonly A2AStreamEvent[] {
    const now = this.snapshot as Snapshot;
    if (done && (now.state !== 'completed' || text === '')) return [];
    const { current, updatedAt } = now;
    const messageId = nameId(`text/${now.task}/${current?.messageId ?? ''}`);
    const at = timestamp(updatedAt);
    const message = {
      ...agentMessage(now, messageId, [{ text }]),
      ...(done && { metadata: { timestamp: at } }),
    };
    const working = { state: 'TASK_STATE_WORKING', message, timestamp: at } as const;
    return [{ statusUpdate: { taskId: now.task, contextId: now.context, status: working } }];
  }
}

/** The status of a task as an event. */
export const statusEvent = (
  now: Snapshot,
  text?: TextOptions,
  parts?: readonly A2APart[],
): A2AStreamEvent => ({
  statusUpdate: {
    taskId: now.task,
    contextId: now.context,
    status: encodeStatus(now, text, parts),
  },
});

const progressStatus = (now: Snapshot, message: string, data?: unknown): A2AStreamEvent =>
  statusEvent(now, undefined, [{ text: message }, ...(data === undefined ? [] : [{ data }])]);
