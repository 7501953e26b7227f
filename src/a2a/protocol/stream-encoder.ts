import { textUpdates, throttle, type TextUpdate } from '../../event/throttle.ts';
import type { Encoder, Entry, Snapshot } from '../../event/types.ts';
import { SlimFold } from './slim-fold.ts';
import type { A2APart, A2ATask, A2AStreamEvent } from './model.ts';
import {
  agentMessage,
  encodeArtifact,
  encodeStatus,
  encodeTask,
  nameId,
  responseArtifact,
  responseId,
  STATUS_TEXT_CHARS,
  timestamp,
  type EncodeTaskOptions,
} from './task-encoder.ts';

/** Of the text of a run, what a stream keeps after the client has it: most retries need no more. */
const KEPT_CHARS = 1024;

/** How the text of a run is shown. */
export interface TextOptions {
  /**
   * By default it grows as an artifact whose last chunk is marked, and the last status does not
   * repeat it: clients that show both would show it twice. `artifact`: the same, and the last status
   * has the whole text too. `status`: one working message that is updated in place and always has
   * all of it, then the whole as an artifact and in the last status.
   */
  readonly pattern?: 'artifact' | 'status';
  /** What that artifact is called. */
  readonly artifact?: string;
  /** An update goes out when the length passes a multiple of this; without it an artifact grows as the log does. */
  readonly chars?: number;
  /** In `status`, `head120` shows the beginning only until the text is whole. */
  readonly preview?: 'whole' | 'head120';
}

export interface A2AEncoder {
  readonly encode: Encoder<A2AStreamEvent>;
  /** The fold of what was fed so far; undefined before the first entry. */
  readonly snapshot: Snapshot | undefined;
  /** The task as it stands: what a client has that folded every event so far. */
  task(view?: EncodeTaskOptions): A2ATask;
  /** The client has the task now, so what was said and made up to here and later need not be kept. */
  forget(): void;
  /** Whether this entry shows some of it all the same; then `restore` gives the task up to there first. */
  lacks(entry: Entry): boolean;
  restore(whole: Snapshot): void;
}

/**
 * A task's log as A2A stream events: the task as `submitted`, then progress and artifacts in the
 * order of the log, then one status that ends the stream. The text of a run is one artifact named
 * `response` that grows by appending, so bytes are linear; after a retry that voids text the next
 * piece replaces it; `TextOptions` has the other ways. What sub-agents say, reasoning and frames are
 * not shown.
 */
export const a2aEncoder = (options: TextOptions = {}): A2AEncoder => new LogEncoder(options);

class LogEncoder implements A2AEncoder {
  readonly encode: Encoder<A2AStreamEvent>;
  readonly #fold: SlimFold;
  readonly #text: TextOptions;
  readonly #inStatus: boolean;
  /** The id of this run's text. */
  #response = '';
  /** The client has some of it. */
  #opened = false;
  /** And some of that is void. */
  #stale = false;

  constructor(options: TextOptions) {
    const { pattern, chars } = options;
    this.#text = options;
    // The last status repeats a text up to that length, and a longer one not at all.
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
    // There every update has the whole text.
    if (!this.#inStatus) this.#fold.forget();
  }

  lacks(entry: Entry): boolean {
    return this.#fold.lacks(entry);
  }

  restore(whole: Snapshot): void {
    this.#fold.restore(whole);
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
        return [status(now)];
      case 'retry':
        if (!entry.path?.length) this.#stale ||= this.#opened && entry.discard;
        return [says(now, `The model did not answer (${entry.error.code}); trying again.`)];
      case 'text.delta':
        return entry.path?.length || this.#inStatus ? [] : [this.#textUpdate(now, entry.delta)];
      case 'status':
        return [says(now, entry.message, entry.data)];
      case 'tool.called': {
        const { callId, name } = entry;
        return [says(now, `Calling ${name}`, { tool: { callId, name } })];
      }
      case 'tool.progress':
        return entry.message === undefined ? [] : [says(now, entry.message)];
      case 'tool.failed': {
        const { callId, name } = entry;
        return [says(now, `${name} failed`, { tool: { callId, name, failed: true } })];
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
        return [status(now)];
      case 'run.finished': {
        const waits = entry.outcome === 'input-required';
        return [...this.#closing(now, waits), ...(waits ? [] : [status(now, this.#text)])];
      }
      case 'cancel.requested':
      case 'step.started':
      case 'step.finished':
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
    // As status, no delta was an artifact: what is owed is all of it, also after a wait.
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

  /** What is still owed of the text when a run ends. */
  #closing(now: Snapshot, waits: boolean): readonly A2AStreamEvent[] {
    // ADK shows a text that grew as the answer only behind its last chunk.
    const marked = !waits && now.text !== '';
    const unsent = this.#inStatus && now.text !== '';
    return this.#stale || marked || unsent ? [this.#textUpdate(now, '', marked)] : [];
  }

  /** The text in the one message that has it, then everything else. */
  #inPlace(options: TextOptions): Encoder<A2AStreamEvent> {
    const updates = textUpdates(options);
    return (entry) => [
      ...updates(entry).flatMap((update) => this.#update(update)),
      ...this.#eventsOf(entry),
    ];
  }

  #update({ text: words, done }: TextUpdate): readonly A2AStreamEvent[] {
    const now = this.snapshot as Snapshot;
    if (done && (now.state !== 'completed' || words === '')) return [];
    const { current, updatedAt } = now;
    const messageId = nameId(`text/${now.task}/${current?.messageId ?? ''}`);
    const at = timestamp(updatedAt);
    const message = {
      ...agentMessage(now, messageId, [{ text: words }]),
      ...(done && { metadata: { timestamp: at } }),
    };
    const working = { state: 'TASK_STATE_WORKING', message, timestamp: at } as const;
    return [{ statusUpdate: { taskId: now.task, contextId: now.context, status: working } }];
  }
}

const status = (now: Snapshot, text?: TextOptions, parts?: readonly A2APart[]): A2AStreamEvent => ({
  statusUpdate: {
    taskId: now.task,
    contextId: now.context,
    status: encodeStatus(now, text, parts),
  },
});

const says = (now: Snapshot, message: string, data?: unknown): A2AStreamEvent =>
  status(now, undefined, [{ text: message }, ...(data === undefined ? [] : [{ data }])]);
