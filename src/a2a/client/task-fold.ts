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

/** One way in which a server broke the contract of its stream, or has none; the client went on all the same. */
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

/**
 * The events of a stream put together to the task that they describe. Tolerates what servers do
 * wrong and says what it was. Costs what an event adds: text that is appended is not copied.
 */
export class TaskFold {
  readonly problems: StreamProblem[] = [];
  #task: Omit<A2ATask, 'artifacts'> | undefined;
  #message: A2AMessage | undefined;
  readonly #artifacts = new Map<string, A2AArtifact>();
  #statusText = '';

  /** The task so far; undefined before its first event, and when the answer is a plain message. */
  get task(): A2ATask | undefined {
    if (!this.#task) return undefined;
    const artifacts = [...this.#artifacts.values()];
    return { ...this.#task, ...(artifacts.length > 0 && { artifacts }) };
  }

  get message(): A2AMessage | undefined {
    return this.#message;
  }

  get status(): A2AStatus | undefined {
    return this.#task?.status;
  }

  /** Whether the stream has nothing more to say: a final state, a wait for a person, or a message. */
  get settled(): boolean {
    const state = this.#task?.status.state;
    return state === undefined ? this.#message !== undefined : isSettled(state);
  }

  /**
   * What the agent said so far, whichever way it says it: in artifacts, appended or whole; else in
   * status messages, each of which replaces the one before.
   */
  get text(): string {
    if (this.#message) return textOf(this.#message.parts);
    const texts = [...this.#artifacts.values()].map(({ parts }) => textOf(parts));
    const said = texts.filter((text) => text !== '').join('\n\n');
    return said === '' ? this.#statusText : said;
  }

  /** `resumed`: the first event after a reconnect, which may be a snapshot of all that is there. */
  apply(event: A2AStreamEvent, resumed = false): void {
    if ('task' in event) return this.#start(event.task, resumed);
    if ('message' in event) {
      if (this.#task) this.#problem('second-task', 'a message came in the stream of a task');
      else this.#message = event.message;
      return;
    }
    const { taskId, contextId } =
      'statusUpdate' in event ? event.statusUpdate : event.artifactUpdate;
    if (!this.#task) {
      this.#problem('no-task-first', 'the first event was no task');
      const status: A2AStatus = { state: 'TASK_STATE_WORKING', timestamp: '' };
      this.#task = { id: taskId, contextId, status };
    }
    if (taskId !== this.#task.id)
      return this.#problem('other-task', `an event was of task ${taskId}`);
    if (TERMINAL.has(this.#task.status.state))
      return this.#problem('after-final', 'an event came behind the final one');
    if ('statusUpdate' in event) this.#setStatus(event.statusUpdate.status);
    else this.#put(event.artifactUpdate);
  }

  note(kind: StreamProblem['kind'], message: string): void {
    this.#problem(kind, message);
  }

  #start({ artifacts = [], ...task }: A2ATask, resumed: boolean): void {
    if (this.#task && this.#task.id !== task.id)
      return this.#problem('other-task', `a task came that is another, ${task.id}`);
    if (this.#task && !resumed) this.#problem('second-task', 'a task came in mid-stream');
    this.#task = task;
    this.#artifacts.clear();
    for (const artifact of artifacts) this.#artifacts.set(artifact.artifactId, joined(artifact));
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
      this.#problem('append-to-nothing', `${artifact.artifactId} was appended to, but never begun`);
    const next = append && known ? extended(known, artifact) : joined(artifact);
    this.#artifacts.set(artifact.artifactId, next);
  }

  #problem(kind: StreamProblem['kind'], message: string): void {
    if (this.problems.length < 100) this.problems.push({ kind, message });
  }
}

/** Whether nothing more comes before somebody says something. */
export const isSettled = (state: A2AState): boolean =>
  TERMINAL.has(state) || INTERRUPTED.has(state);

const textOf = (parts: readonly A2APart[]): string => parts.map(({ text = '' }) => text).join('');

const joined = (artifact: A2AArtifact): A2AArtifact => ({
  ...artifact,
  parts: artifact.parts.reduce<readonly A2APart[]>(add, []),
});

const extended = (known: A2AArtifact, more: A2AArtifact): A2AArtifact => ({
  ...known,
  ...more,
  parts: more.parts.reduce<readonly A2APart[]>(add, known.parts),
});

/** Text behind text of the same kind is one text: a thousand chunks are not a thousand parts. */
function add(parts: readonly A2APart[], part: A2APart): readonly A2APart[] {
  const last = parts.at(-1);
  const joins =
    last?.text !== undefined &&
    part.text !== undefined &&
    last.mediaType === part.mediaType &&
    !last.metadata &&
    !part.metadata;
  if (!joins) return [...parts, part];
  return [...parts.slice(0, -1), { ...last, text: `${last.text}${part.text}` }];
}
