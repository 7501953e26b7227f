import { tooLarge } from '../../errors.ts';
import { jsonChars } from '../../json.ts';
import {
  INTERRUPTED,
  TERMINAL,
  type A2AArtifact,
  type A2AMessage,
  type A2APart,
  type A2AState,
  type A2AStatus,
  type A2ATask,
  type ArtifactUpdate,
  type A2AStreamEvent,
} from '../protocol/model.ts';

/**
 * A violation of the stream contract that the client tolerated, or a missing capability
 * (`no-streaming`).
 */
export interface StreamProblem {
  readonly kind:
    | 'no-task-first'
    | 'second-task'
    | 'other-task'
    | 'after-final'
    | 'final-not-terminal'
    | 'closed-without-final'
    | 'append-to-nothing'
    | 'no-streaming'
    | 'malformed';
  readonly message: string;
}

/** The limit for the content of the artifacts of a stream: that of a complete response. */
const MAX_CONTENT_CHARS = 64 << 20;
/** The limit for their ids, names and metadata, with `UNIT_CHARS` for each artifact and part. */
const MAX_LABEL_CHARS = 8 << 20;
const UNIT_CHARS = 100;
const MAX_NOTE_CHARS = 300;

interface ArtifactSize {
  readonly labels: number;
  readonly content: number;
}

/**
 * Folds the events of a stream to the task that they describe. Tolerates common mistakes of servers
 * and lists them in `problems`. An event costs what it adds: appended text is not copied. Throws
 * `too_large` for artifacts beyond the limits: a server may send them without end.
 *
 * @example
 * const fold = new TaskFold();
 * for await (const event of client.stream('hello')) fold.apply(event);
 * console.log(fold.text);
 */
export class TaskFold {
  readonly problems: StreamProblem[] = [];
  #task: Omit<A2ATask, 'artifacts'> | undefined;
  #message: A2AMessage | undefined;
  readonly #artifacts = new Map<string, A2AArtifact>();
  readonly #sizes = new Map<string, ArtifactSize>();
  #labels = 0;
  #content = 0;
  #statusText = '';

  /** The task so far; undefined before its first event, and if the agent replied with a message. */
  get task(): A2ATask | undefined {
    if (!this.#task) return undefined;
    const artifacts = [...this.#artifacts.values()];
    return { ...this.#task, ...(artifacts.length > 0 && { artifacts }) };
  }

  /** The reply of an agent that created no task. */
  get message(): A2AMessage | undefined {
    return this.#message;
  }

  /** The last status of the task. */
  get status(): A2AStatus | undefined {
    return this.#task?.status;
  }

  /** Whether the stream is complete: a final state, a wait for a person, or a reply message. */
  get settled(): boolean {
    const state = this.#task?.status.state;
    return state === undefined ? this.#message !== undefined : isSettled(state);
  }

  /**
   * The agent's text so far: that of the artifacts, or if they have none that of the last status
   * message, since servers send the text one way or the other.
   */
  get text(): string {
    if (this.#message) return textOf(this.#message.parts);
    const texts = [...this.#artifacts.values()].map(({ parts }) => textOf(parts));
    const text = texts.filter((each) => each !== '').join('\n\n');
    return text === '' ? this.#statusText : text;
  }

  /**
   * Folds one event. `resumed`: the first event after a reconnect, which may be the complete task.
   */
  apply(event: A2AStreamEvent, resumed = false): void {
    if ('task' in event) return this.#start(event.task, resumed);
    if ('message' in event) {
      if (this.#task) this.note('second-task', 'a message arrived in the stream of a task');
      else this.#message = event.message;
      return;
    }
    const { taskId, contextId } =
      'statusUpdate' in event ? event.statusUpdate : event.artifactUpdate;
    if (!this.#task) {
      this.note('no-task-first', 'the first event was not a task');
      const status: A2AStatus = { state: 'TASK_STATE_WORKING', timestamp: '' };
      this.#task = { id: taskId, contextId, status };
    }
    if (taskId !== this.#task.id)
      return this.note('other-task', `an event was for task "${taskId}"`);
    if (TERMINAL.has(this.#task.status.state))
      return this.note('after-final', 'an event arrived after the final one');
    if ('statusUpdate' in event) this.#setStatus(event.statusUpdate.status);
    else this.#put(event.artifactUpdate);
  }

  /** Adds a problem that the reader of the stream found. Keeps the first hundred. */
  note(kind: StreamProblem['kind'], message: string): void {
    // A message contains ids of the server, which may be long.
    const short = message.slice(0, MAX_NOTE_CHARS);
    if (this.problems.length < 100) this.problems.push({ kind, message: short });
  }

  #start({ artifacts = [], ...task }: A2ATask, resumed: boolean): void {
    if (this.#task && this.#task.id !== task.id)
      return this.note('other-task', `a different task arrived: "${task.id}"`);
    if (this.#task && !resumed)
      this.note('second-task', 'a task arrived in the middle of the stream');
    this.#task = task;
    this.#artifacts.clear();
    this.#sizes.clear();
    this.#labels = this.#content = 0;
    for (const artifact of artifacts) this.#set(joined(artifact), contentChars(artifact));
    this.#setStatus(task.status);
  }

  #setStatus(status: A2AStatus): void {
    if (this.#task) this.#task = { ...this.#task, status };
    const text = textOf(status.message?.parts ?? []);
    if (text !== '') this.#statusText = text;
  }

  #put({ artifact, append }: ArtifactUpdate): void {
    const known = this.#artifacts.get(artifact.artifactId);
    if (append && !known)
      this.note(
        'append-to-nothing',
        `artifact "${artifact.artifactId}" was appended to, but never created`,
      );
    const more = contentChars(artifact);
    if (!append || !known) return this.#set(joined(artifact), more);
    const { content = 0 } = this.#sizes.get(artifact.artifactId) ?? {};
    this.#set(extended(known, artifact), content + more);
  }

  #set(artifact: A2AArtifact, content: number): void {
    const { artifactId } = artifact;
    const known = this.#sizes.get(artifactId);
    const labels = labelChars(artifact);
    this.#labels += labels - (known?.labels ?? 0);
    this.#content += content - (known?.content ?? 0);
    if (this.#labels > MAX_LABEL_CHARS || this.#content > MAX_CONTENT_CHARS)
      throw tooLarge(
        `the artifacts of the agent exceed the limits of a stream (${MAX_CONTENT_CHARS} characters, ${MAX_LABEL_CHARS} of ids and metadata)`,
      );
    this.#sizes.set(artifactId, { labels, content });
    this.#artifacts.set(artifactId, artifact);
  }
}

/** Whether a task is final or waits for a person: no event follows before the next message. */
export const isSettled = (state: A2AState): boolean =>
  TERMINAL.has(state) || INTERRUPTED.has(state);

/** The text of all parts together. */
export const textOf = (parts: readonly A2APart[]): string =>
  parts.map(({ text = '' }) => text).join('');

/** Roughly how many characters the parts take. */
function contentChars({ parts }: A2AArtifact): number {
  let chars = 0;
  for (const part of parts)
    chars += part.text !== undefined && !part.metadata ? part.text.length : jsonChars(part);
  return chars;
}

/** Roughly how many characters everything else of an artifact takes. */
function labelChars({ parts, ...labels }: A2AArtifact): number {
  let chars = UNIT_CHARS * (1 + parts.length);
  for (const value of Object.values(labels)) chars += jsonChars(value);
  return chars;
}

const joined = (artifact: A2AArtifact): A2AArtifact => ({
  ...artifact,
  parts: withParts([], artifact.parts),
});

const extended = (known: A2AArtifact, more: A2AArtifact): A2AArtifact => ({
  ...known,
  ...more,
  parts: withParts(known.parts, more.parts),
});

/**
 * Adds parts, in one copy: an event of a server may have very many. Merges text with preceding text
 * of the same type, so that chunks do not become parts.
 */
function withParts(known: readonly A2APart[], more: readonly A2APart[]): readonly A2APart[] {
  const parts = [...known];
  for (const part of more) {
    const last = parts.at(-1);
    const joins =
      last?.text !== undefined &&
      part.text !== undefined &&
      last.mediaType === part.mediaType &&
      !last.metadata &&
      !part.metadata;
    if (joins) parts[parts.length - 1] = { ...last, text: `${last.text}${part.text}` };
    else parts.push(part);
  }
  return parts;
}
