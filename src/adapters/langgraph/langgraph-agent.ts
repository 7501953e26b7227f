import type { Answer } from '../../ask.ts';
import type { Agent, AgentContext, AgentEvent, Part, Turn } from '../../event/types.ts';
import { asObject, asObjects, asString, type JsonObject } from '../../json.ts';
import { conversationKey } from '../shared/conversation-key.ts';
import { continuingAgent, partText, readModel } from '../shared/framework-agent.ts';
import { earlierMessages } from '../shared/earlier-messages.ts';
import { aiText, GraphReader, type Interrupt } from './graph-reader.ts';
import { GraphStream } from './graph-stream.ts';
import { PendingEnds } from './pending-ends.ts';
import { type Answered, InterruptQuestions } from './interrupt-questions.ts';
import {
  type CheckpointSaver,
  openTaskCheckpointer,
  type TaskCheckpointer,
  THREAD,
} from './task-checkpointer.ts';

/** The part of a compiled graph of LangGraph.js that the adapter uses. */
export interface LangGraph {
  stream(input: never, config: never): PromiseLike<AsyncIterable<unknown>>;
  getState?(config: never): PromiseLike<unknown>;
  /** With a checkpointer, the graph stores the conversation itself and can wait for a person. */
  readonly checkpointer?: unknown;
}

/** Options of `langgraph()`. */
export interface LangGraphOptions {
  /**
   * `messages` (default) streams the text of the graph's models, token by token. `updates` reports
   * a status for each node that has finished and the state as `output`, for graphs without
   * messages.
   */
  readonly mode?: 'messages' | 'updates';
  /**
   * The state with which a turn starts the graph; by default its message, under the key `messages`.
   */
  readonly input?: (turn: Turn, ctx: AgentContext) => unknown;
  /** More members of the graph's config, such as `recursionLimit` or `context`. */
  readonly config?: JsonObject;
  /** In mode `updates`: the text of the run that a finished node adds. */
  readonly say?: (node: string, update: JsonObject) => string | undefined;
  /**
   * For a graph that was compiled without a checkpointer: one of LangGraph, such as `new
   * MemorySaver()`, whose serializer is used. Its checkpoints are kept with the task in the log, so
   * that any process continues the graph where it was. The thread is that of the task.
   */
  readonly checkpoints?: CheckpointSaver;
  /**
   * The return value of `interrupt()` for an answer. By default the content of an accepted answer,
   * or `true` if it has none; `false` for any other answer.
   */
  readonly resume?: (answer: Answer, value: unknown) => unknown;
}

const TOKENS = ['messages', 'updates', 'custom', 'tools'];
const NODES = ['updates', 'custom'];

/**
 * Creates an agent from a compiled graph. Its thread is that of the turn's context, separate for
 * each owner and tenant. With a checkpointer a further message continues the same conversation, and
 * `interrupt()` becomes a question to a person; with the answer the graph continues where it
 * waited, in this process or another. With `checkpoints` it also continues after a crash, with the
 * nodes that were under way. Under `withRetry`, set `maxRetries: 0` on your chat model.
 */
export function langgraph(graph: LangGraph, options: LangGraphOptions = {}): Agent {
  const { checkpoints } = options;
  const agent = continuingAgent(async function* (turn, ctx) {
    const questions = new InterruptQuestions(turn, ctx);
    const stream = new GraphStream();
    const { storage } = ctx;
    const own =
      checkpoints && storage
        ? await openTaskCheckpointer(checkpoints, storage, turn.messageId, () =>
            stream.drained(ctx.signal),
          )
        : undefined;
    const thread: Thread = { graph, options, turn, own };
    const reader = new GraphReader(ctx.task.calls);
    yield* shownAgain(await finishedMessages(thread), ctx, reader);
    yield { type: 'status', message: 'Running graph...' };
    const resumed = await resumption(thread, ctx, questions);
    let input = resumed === undefined ? await opening(thread, ctx) : resumed;
    const pendingEnds = new PendingEnds();
    const state: Record<string, unknown> = {};
    for (;;) {
      for await (const item of stream.read(open(thread, input, ctx))) {
        const events = reader.read(item);
        yield* own ? pendingEnds.take(item, events) : events;
        if (options.mode === 'updates') yield* nodeEvents(item, state, options);
        const ends = pendingEnds.release(item);
        if (own && ends.length > 0) await stream.waiting(own.stored());
        yield* ends;
      }
      yield* reader.end();
      const interrupts = reader.takeInterrupts();
      if (interrupts.length === 0) break;
      pendingEnds.clear();
      input = command(await questions.askAll(interrupts), options);
    }
    yield* pendingEnds.releaseAll();
    const output = reader.output ?? (options.mode === 'updates' ? state : undefined);
    yield {
      type: 'run.finished',
      outcome: 'completed',
      text: options.mode === 'updates' ? '' : reader.unstreamedText,
      ...(output !== undefined && { output }),
    };
  });
  // Without `checkpoints` the log does not know where the graph was.
  return checkpoints ? Object.assign(agent, { resumable: true }) : agent;
}

/**
 * The messages of the nodes that an earlier run of this turn has finished; undefined if there was
 * none, or if the state of the graph does not say what was written.
 */
async function finishedMessages(thread: Thread): Promise<readonly JsonObject[] | undefined> {
  const { graph, options, turn, own } = thread;
  if (own?.turn !== turn.messageId || options.mode === 'updates') return undefined;
  const config = { configurable: configurable(thread) };
  const { values } = asObject(await graph.getState?.(config as never));
  const messages = asObjects(asObject(values)['messages']);
  const first = messages.findLastIndex(({ id }) => id === turn.messageId);
  return first < 0 ? undefined : messages.slice(first + 1);
}

/**
 * The beginning of a run that continues another: readers have seen the nodes that had finished. The
 * nodes under way run again, and so does their text: it is replaced.
 */
function* shownAgain(
  finished: readonly JsonObject[] | undefined,
  { task }: AgentContext,
  reader: GraphReader,
): Generator<AgentEvent, void, undefined> {
  if (!finished) return;
  const text = finished.map((message) => aiText(message)).join('');
  if (task.text !== text || task.mark?.unfinished === true) {
    yield { type: 'run.started', discard: true };
    if (text !== '') yield { type: 'text.delta', id: 'before', delta: text };
  }
  yield* reader.endsIn(finished);
}

/** The graph and the thread of a run. */
interface Thread {
  readonly graph: LangGraph;
  readonly options: LangGraphOptions;
  readonly turn: Turn;
  /** The checkpoints in the log, if the graph has none of its own. */
  readonly own: TaskCheckpointer | undefined;
}

function open(
  thread: Thread,
  input: unknown,
  { signal }: AgentContext,
): AsyncGenerator<unknown, void, undefined> {
  const { graph, options, own } = thread;
  const { mode, config = {} } = options;
  const settings = {
    // A node starts only after the checkpoint before it is durable.
    ...(own && { durability: 'sync' }),
    ...config,
    streamMode: mode === 'updates' ? NODES : TOKENS,
    subgraphs: true,
    signal,
    configurable: configurable(thread),
  };
  return readModel(
    () => graph.stream(input as never, settings as never),
    signal,
    (item) => [item],
  );
}

/** The events for a finished node of the graph itself, not of a subgraph. */
function* nodeEvents(
  item: unknown,
  state: Record<string, unknown>,
  { say }: LangGraphOptions,
): Generator<AgentEvent, void, undefined> {
  const [namespace, mode, payload] = item as [readonly unknown[], unknown, unknown];
  if (mode !== 'updates' || namespace.length > 0) return;
  for (const [node, update] of Object.entries(asObject(payload))) {
    if (node === '__interrupt__') continue;
    const change = asObject(update);
    Object.assign(state, change);
    yield { type: 'status', message: node, data: change };
    const text = say?.(node, change);
    if (text) yield { type: 'text.delta', id: node, delta: text };
  }
}

async function opening(
  { graph: { checkpointer }, options: { input }, turn, own }: Thread,
  ctx: AgentContext,
): Promise<unknown> {
  if (input) return input(turn, ctx);
  const isKnown = own ? own.hasAny : checkpointer;
  const before = isKnown ? [] : await earlierMessages(turn, ctx);
  return {
    messages: [
      ...before.map(({ role, text: content }) => ({ role, content })),
      // With this id, a message that is sent again after a failure replaces the first one.
      { role: 'user', content: turn.parts.map(blockOf), id: turn.messageId },
    ],
  };
}

function blockOf(part: Part): JsonObject {
  if (!('bytes' in part)) return { type: 'text', text: partText(part) };
  const url = `data:${part.mediaType};base64,${Buffer.from(part.bytes).toString('base64')}`;
  return { type: 'image_url', image_url: { url } };
}

const configurable = ({ options: { config = {} }, turn, own }: Thread): JsonObject => ({
  thread_id: own ? THREAD : conversationKey(turn),
  ...asObject(config['configurable']),
  // LangGraph uses this checkpointer instead of the one that the graph was compiled with.
  ...(own && { thread_id: THREAD, __pregel_checkpointer: own.saver }),
});

/**
 * The command that resumes the graph, if it still waits for answers that the log has. With
 * checkpoints in the log: null, if an earlier run of this turn has left the graph in the middle.
 */
async function resumption(
  thread: Thread,
  { task }: AgentContext,
  questions: InterruptQuestions,
): Promise<JsonObject | null | undefined> {
  const { graph, options, turn, own } = thread;
  const isAgain = own?.turn === turn.messageId;
  if (!isAgain && (task.answers.length === 0 || !graph.checkpointer)) return undefined;
  if (!graph.getState) return isAgain ? null : undefined;
  const config = { configurable: configurable(thread) };
  const state = asObject(await graph.getState(config as never));
  const waiting = asObjects(state['tasks'])
    .flatMap((node) => asObjects(node['interrupts']))
    .map(({ id, value }): Interrupt => ({ id: asString(id), value }));
  if (isAgain && waiting.length === 0) return null;
  if (!isAgain && !waiting.some(({ id }) => questions.wasAsked(id))) return undefined;
  return command(await questions.resumeAll(waiting), options);
}

/**
 * A `Command` of LangGraph, which recognizes it by `lg_name`, so that its class is not imported.
 */
function command(
  answered: readonly Answered[],
  { resume = answerOf }: LangGraphOptions,
): JsonObject {
  const values = answered.map(([{ id, value }, answer]) => [id, resume(answer, value)]);
  return { lg_name: 'Command', resume: Object.fromEntries(values) as JsonObject, goto: [] };
}

// Graphs mostly test `if (answer)`, so the text of a declined answer must not be returned.
const answerOf = ({ action, content }: Answer): unknown =>
  action === 'accept' ? (content ?? true) : false;
