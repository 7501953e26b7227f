import type { Answer } from '../../ask.ts';
import type { Agent, AgentContext, AgentEvent, Part, Turn } from '../../event/types.ts';
import { asObject, asObjects, asString, type JsonObject } from '../../json.ts';
import { conversationKey } from '../shared/conversation-key.ts';
import { continuingAgent, partText, readModel } from '../shared/framework-agent.ts';
import { earlierMessages } from '../shared/earlier-messages.ts';
import { GraphReader, type Interrupt } from './graph-reader.ts';
import { type Answered, InterruptQuestions } from './interrupt-questions.ts';

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
 * waited, in this process or another. Under `withRetry`, set `maxRetries: 0` on your chat model.
 */
export function langgraph(graph: LangGraph, options: LangGraphOptions = {}): Agent {
  return continuingAgent(async function* (turn, ctx) {
    yield { type: 'status', message: 'Running graph...' };
    const questions = new InterruptQuestions(turn, ctx);
    let input =
      (await resumption(graph, options, turn, ctx, questions)) ??
      (await opening(graph, options, turn, ctx));
    const reader = new GraphReader();
    const state: Record<string, unknown> = {};
    for (;;) {
      for await (const item of open(graph, input, options, turn, ctx)) {
        yield* reader.read(item);
        if (options.mode === 'updates') yield* nodeEvents(item, state, options);
      }
      yield* reader.end();
      const interrupts = reader.takeInterrupts();
      if (interrupts.length === 0) break;
      input = command(await questions.askAll(interrupts), options);
    }
    const output = reader.output ?? (options.mode === 'updates' ? state : undefined);
    yield {
      type: 'run.finished',
      outcome: 'completed',
      text: options.mode === 'updates' ? '' : reader.unstreamedText,
      ...(output !== undefined && { output }),
    };
  });
}

function open(
  graph: LangGraph,
  input: unknown,
  { mode, config = {} }: LangGraphOptions,
  turn: Turn,
  { signal }: AgentContext,
): AsyncGenerator<unknown, void, undefined> {
  const settings = {
    ...config,
    streamMode: mode === 'updates' ? NODES : TOKENS,
    subgraphs: true,
    signal,
    configurable: configurable(turn, config),
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
  { checkpointer }: LangGraph,
  { input }: LangGraphOptions,
  turn: Turn,
  ctx: AgentContext,
): Promise<unknown> {
  if (input) return input(turn, ctx);
  const before = checkpointer ? [] : await earlierMessages(turn, ctx);
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

const configurable = (turn: Turn, config: JsonObject = {}): JsonObject => ({
  thread_id: conversationKey(turn),
  ...asObject(config['configurable']),
});

/** The command that resumes the graph, if it still waits for answers that the log has. */
async function resumption(
  graph: LangGraph,
  options: LangGraphOptions,
  turn: Turn,
  { task }: AgentContext,
  questions: InterruptQuestions,
): Promise<JsonObject | undefined> {
  if (task.answers.length === 0 || !graph.checkpointer || !graph.getState) return undefined;
  const config = { configurable: configurable(turn, options.config) };
  const state = asObject(await graph.getState(config as never));
  const waiting = asObjects(state['tasks'])
    .flatMap((node) => asObjects(node['interrupts']))
    .map(({ id, value }): Interrupt => ({ id: asString(id), value }));
  if (!waiting.some(({ id }) => questions.wasAsked(id))) return undefined;
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
