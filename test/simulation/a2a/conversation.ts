import { connectAgent } from '../../../src/a2a/client/connect-agent.ts';
import type { A2AClient } from '../../../src/a2a/client/a2a-client.ts';
import type { A2AStream } from '../../../src/a2a/client/a2a-stream.ts';
import { isSettled } from '../../../src/a2a/client/task-fold.ts';
import { TERMINAL, type A2AStreamEvent, type A2ATask } from '../../../src/a2a/protocol/model.ts';
import { DuolaneError } from '../../../src/errors.ts';
import { asObject } from '../../../src/json.ts';
import type { Network } from '../network/network.ts';
import { pause } from '../tasks/agents.ts';
import type { World } from '../world.ts';
import { ORIGIN } from './a2a-replica.ts';
import type { ClientPlan, Conversation } from './plan.ts';
import { type PublishedEvents, received } from './published-events.ts';

/** What a conversation needs of its world. */
export interface Surroundings {
  readonly world: World;
  readonly network: Network;
  readonly published: PublishedEvents;
  /** Nothing goes wrong in this run. */
  readonly isQuiet: boolean;
  /** A proxy may end a stream as if it were complete. */
  readonly mayEndEarly: boolean;
  /** The state of a task in the store. */
  readonly stateOf: (task: string) => string | undefined;
  readonly canceled: Set<string>;
  /** The work of an app: it must settle. */
  readonly track: (what: string, work: Promise<unknown>) => void;
  readonly controllers: AbortController[];
}

/** So often an app tries again before it gives up. */
const MAX_TRIES = 300;

class Left extends Error {}

/** Connects a client to an agent, as its plan says. */
export async function connect(
  { network }: Surroundings,
  { version, binding, server, silenceMs }: ClientPlan,
  agent: string,
): Promise<A2AClient> {
  const options = { fetch: network.fetch as typeof fetch, version, binding, silenceMs };
  const url = `${ORIGIN}/${agent}`;
  const client = await again(() => connectAgent(url, options));
  if (server === 'exact') return client;
  const { capabilities, ...card } = client.card;
  const { extensions: _, ...known } = asObject(capabilities);
  const streaming = server === 'foreign';
  return connectAgent({ ...card, capabilities: { ...known, streaming } }, options);
}

/** Repeats a call as long as a retry may help. */
async function again<T>(call: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++)
    try {
      return await call();
    } catch (error) {
      if (!DuolaneError.from(error).retryable || tries > MAX_TRIES) throw error;
      await pause(500, undefined);
    }
}

/** One conversation of an app with an agent, and what it sees. */
export class ConversationRun {
  readonly #around: Surroundings;
  readonly #plan: Conversation;
  readonly #client: ClientPlan;
  #task: string | undefined;
  /** The event id to resume after. */
  #after: string | undefined;
  #abort = new AbortController();
  #hasLeft = false;
  #isAnswer = false;
  #answers = 0;
  onTask: (task: string) => void = () => {};

  constructor(around: Surroundings, plan: Conversation, client: ClientPlan) {
    this.#around = around;
    this.#plan = plan;
    this.#client = client;
  }

  async run(): Promise<void> {
    const { agent, message, by } = this.#plan;
    const client = await connect(this.#around, this.#client, agent);
    if (by === 'send') await this.#send(client);
    const begin = (): A2AStream =>
      this.#task === undefined
        ? client.stream('hi', { messageId: message, ...this.#options() })
        : this.#resume(client);
    let stream = begin();
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const outcome = await this.#read(stream);
      if (outcome === 'settled') {
        const { status } = stream;
        if (!status || TERMINAL.has(status.state)) return this.#finish(stream);
        const next = await this.#answer(client, stream);
        this.#isAnswer = next !== undefined;
        if (next) {
          stream = next;
          continue;
        }
      } else await pause(outcome === 'left' ? (this.#plan.leaves?.backMs ?? 0) : 1000, undefined);
      this.#isAnswer = false;
      stream = begin();
    }
    this.#around.world.broken('a conversation ends', `${message} of task ${this.#task}`);
  }

  /** Reads a task from its beginning, as a second client does. */
  async watch(task: string): Promise<void> {
    const client = await connect(this.#around, this.#client, this.#plan.agent);
    this.#task = task;
    this.#hasLeft = true;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const stream = this.#resume(client);
      const outcome = await this.#read(stream);
      if (outcome === 'settled' && TERMINAL.has(stream.status?.state ?? 'TASK_STATE_COMPLETED'))
        return this.#finish(stream);
      await pause(3000, undefined);
    }
  }

  async cancel(task: string): Promise<void> {
    const client = await connect(this.#around, this.#client, this.#plan.agent);
    try {
      const { status } = await again(() => client.cancel(task));
      this.#around.canceled.add(task);
      const state = this.#around.stateOf(task);
      if (status.state === 'TASK_STATE_CANCELED' && state !== 'canceled')
        this.#broken('a cancel that was confirmed has canceled', `${task} is ${state}`);
    } catch (error) {
      if (DuolaneError.from(error).code !== 'closed') throw error;
    }
  }

  async #send(client: A2AClient): Promise<void> {
    const { signal } = this.#options();
    try {
      const messageId = this.#plan.message;
      const sent = await again(() => client.send('hi', { messageId, signal }));
      if (!('status' in sent)) return this.#broken('an agent makes a task', JSON.stringify(sent));
      this.#found(sent.id);
    } catch (error) {
      this.#check(error);
    }
  }

  #resume(client: A2AClient): A2AStream {
    const { server } = this.#client;
    const after = this.#after !== undefined && server === 'exact' ? { after: this.#after } : {};
    return client.resume(this.#task ?? '', { ...this.#options(), ...after });
  }

  /** The options of the next stream, which the app can abort. */
  #options(): { readonly retryMs: number; readonly signal: AbortSignal } {
    this.#abort = new AbortController();
    this.#around.controllers.push(this.#abort);
    return { retryMs: this.#client.retryMs, signal: this.#abort.signal };
  }

  #broken(law: string, what: string): void {
    this.#around.world.broken(law, what);
  }

  #found(task: string): void {
    if (this.#task !== undefined && this.#task !== task)
      this.#broken('a message makes one task', `${this.#task} and ${task}`);
    if (this.#task !== undefined) return;
    this.#task = task;
    this.onTask(task);
  }

  // ——— reading

  async #read(stream: A2AStream): Promise<'settled' | 'left' | 'failed'> {
    const { leaves, pauseMs } = this.#plan;
    const isFresh = stream.lastEventId === undefined;
    const reader = new StreamReader(this.#around, this.#client, stream);
    let count = 0;
    try {
      for await (const event of stream) {
        if (stream.taskId !== undefined) this.#found(stream.taskId);
        reader.take(event, isFresh);
        this.#after = stream.lastEventId ?? this.#after;
        if (pauseMs > 0) await pause(pauseMs, undefined);
        if (!leaves || this.#hasLeft || ++count <= leaves.after) continue;
        // An app that has seen a question, or the end, has nothing to resume.
        if (stream.status && isSettled(stream.status.state)) continue;
        this.#hasLeft = true;
        if (leaves.how === 'break') return 'left';
        if (leaves.how === 'throw') throw new Left();
        if (leaves.how === 'abort') this.#abort.abort(new Left());
        else stream.disconnect();
      }
    } catch (error) {
      if (error instanceof Left) return 'left';
      if (this.#isAnswer) this.#checkAnswer(error);
      else this.#check(error);
      return 'failed';
    }
    if (stream.status && isSettled(stream.status.state)) {
      reader.end();
      return 'settled';
    }
    if (this.#hasLeft && leaves?.how === 'disconnect') return 'left';
    this.#broken('a stream ends with a final event', `${this.#task} at ${stream.lastEventId}`);
    return 'failed';
  }

  /** A failure of a client is typed, and has a reason. */
  #check(error: unknown): void {
    const { world, isQuiet } = this.#around;
    const failure = error instanceof DuolaneError ? error : undefined;
    const text = String((error as Error).stack);
    if (!failure || failure.code === 'internal') this.#broken('every failure is typed', text);
    else if (isQuiet) this.#broken('without a fault, no stream fails', text);
    else if (failure.code === 'network' && this.#client.server === 'exact')
      this.#broken('a stream resumes after any cut', text);
    world.count(`client ${failure?.code ?? 'error'}`);
  }

  // ——— answers

  async #answer(client: A2AClient, stream: A2AStream): Promise<A2AStream | undefined> {
    const { answerMs, answersTwice, message } = this.#plan;
    const { questions } = stream;
    if (questions.length === 0) {
      this.#broken('a task that waits has a question', `${this.#task}`);
      return undefined;
    }
    await pause(answerMs, undefined);
    const answers = questions.map(({ id }) => ({
      id,
      action: 'accept' as const,
      content: `${message} ${id} ${++this.#answers}`,
    }));
    const options = { messageId: `${message}/a${this.#answers}`, ...this.#options() };
    if (answersTwice) {
      const messageId = `${options.messageId}/again`;
      const other = client.answer(stream, answers, { ...options, messageId });
      this.#around.track(
        'second answer',
        other.result().catch((error: unknown) => this.#checkAnswer(error)),
      );
    }
    return client.answer(stream, answers, options);
  }

  /** An answer may come too late: the question has one, or the task has ended. */
  #checkAnswer(error: unknown): void {
    if (error instanceof Left) return; // the app has aborted both
    const { code } = DuolaneError.from(error);
    if (code !== 'conflict' && code !== 'invalid' && code !== 'unsupported') this.#check(error);
  }

  #finish(stream: A2AStream): void {
    const state = this.#around.stateOf(this.#task ?? '');
    const seen = stream.status?.state.slice('TASK_STATE_'.length).toLowerCase().replace('_', '-');
    if (state !== seen)
      this.#broken('a client sees the end of its task', `${this.#task} is ${state}, not ${seen}`);
  }
}

/** Compares what one stream yields with what the store has. */
class StreamReader {
  readonly #around: Surroundings;
  readonly #client: ClientPlan;
  readonly #stream: A2AStream;
  /** The number of the next event. */
  #next: number | undefined;
  #hasTask = false;
  #last: { readonly id: string | undefined; readonly event: A2AStreamEvent } | undefined;

  constructor(around: Surroundings, client: ClientPlan, stream: A2AStream) {
    this.#around = around;
    this.#client = client;
    this.#stream = stream;
    const { lastEventId: id, taskId: task } = stream;
    if (id !== undefined && task !== undefined) this.#next = around.published.after(task, id);
  }

  take(event: A2AStreamEvent, isFresh: boolean): void {
    const { published, mayEndEarly } = this.#around;
    const { lastEventId: id, taskId: task = '' } = this.#stream;
    const before = this.#last;
    this.#last = { id, event };
    if (this.#client.server === 'poll') return;
    if ('task' in event) {
      // A client that resumes after the last event gets the task, so that it knows the end.
      const isAtEnd = this.#next === published.count(task) && isSettled(event.task.status.state);
      // A stream that a proxy ended before its first event looks like one without events.
      const isExpected = (!before && (isFresh || isAtEnd)) || mayEndEarly;
      if (!isExpected && this.#client.server === 'exact')
        return this.#broken('a stream that resumes has no second task', `${task} at ${id}`);
      this.#hasTask = true;
      // A task that has ended is read, not streamed, and has no id.
      if (TERMINAL.has(event.task.status.state)) this.#next = published.count(task);
      else this.#next = id === undefined ? undefined : published.after(task, id);
      return;
    }
    if (this.#next === undefined)
      return this.#broken('a stream begins with its task', `${task} at ${id}`);
    // The end of a task that had ended, or waited, before its first event.
    if (before && 'task' in before.event && before.id === id && 'statusUpdate' in event) return;
    const expected = published.at(task, this.#next++);
    if (!expected) return this.#broken('an event is stored before it is seen', `${task} at ${id}`);
    if (expected.id !== id)
      return this.#broken(
        'a client sees every event once, in order',
        `${task}: ${id} instead of ${expected.id}`,
      );
    const wanted = JSON.stringify(received(expected.out, this.#client));
    const found = JSON.stringify(event);
    if (wanted !== found)
      this.#broken('a client sees what is stored', `${task} ${id}: ${found}, not ${wanted}`);
  }

  /** The stream has ended by itself. */
  end(): void {
    const { published } = this.#around;
    const { taskId: task = '', status, problems } = this.#stream;
    const known = new Set(['closed-without-final', 'no-streaming']);
    // A stream that resumes has no task to append to.
    if (!this.#hasTask) for (const kind of ['no-task-first', 'append-to-nothing']) known.add(kind);
    for (const { kind, message } of problems)
      if (!known.has(kind)) this.#broken('a server keeps its contract', `${kind}: ${message}`);
    if (!status || !TERMINAL.has(status.state)) return;
    const isPolled = this.#client.server === 'poll';
    if (!isPolled && this.#next !== undefined && this.#next !== published.count(task))
      this.#broken('a stream ends after the last event', `${task}: ${this.#next}`);
    if (isPolled || this.#hasTask) this.#compare(task, this.#stream.task);
  }

  #compare(task: string, seen: A2ATask | undefined): void {
    const { artifacts: found = [] } = seen ?? {};
    const { published } = this.#around;
    const { artifacts: wanted = [] } = published.fold(task, this.#client).task ?? {};
    if (JSON.stringify(found) !== JSON.stringify(wanted))
      this.#broken(
        'a client folds the task that is stored',
        `${task}: ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`,
      );
  }

  #broken(law: string, what: string): void {
    this.#around.world.broken(law, what);
  }
}
