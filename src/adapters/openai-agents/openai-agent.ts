import { modelError } from '../../event/retry/model-error.ts';
import type { Agent, AgentContext, AgentEvent, Part, Turn } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import {
  approve,
  type ApprovalVerdict,
  type Pending,
  questionIdByContent,
} from '../shared/approval.ts';
import { durableAnswers } from '../shared/durable-call.ts';
import { partText, readModel } from '../shared/framework-agent.ts';
import { earlierMessages } from '../shared/earlier-messages.ts';
import { asObject, asString } from '../../json.ts';
import { parsed } from '../shared/tool-failure.ts';
import {
  checkDurable,
  DurableAgents,
  type OpenAiAgent,
  type OpenAiRunner,
} from './durable-agent.ts';
import { NestedRuns, type OpenAiNested } from './nested-runs.ts';
import { RunReader } from './run-reader.ts';

export type { OpenAiAgent, OpenAiRunner } from './durable-agent.ts';

/** The part of the streamed result of `run()` of the OpenAI Agents SDK that the adapter uses. */
export interface OpenAiStream extends AsyncIterable<unknown> {
  readonly completed: PromiseLike<unknown>;
  readonly finalOutput?: unknown;
  readonly interruptions: readonly unknown[];
  readonly state: {
    approve(interruption: never): void;
    reject(interruption: never): void;
  };
}

/** Starts a run: `(input, options) => run(agent, input, options)`; pass both on unchanged. */
export type OpenAiRun<Own = unknown> = (
  input: never,
  options: { readonly stream: true; readonly signal: AbortSignal },
  run: OpenAiRunContext & Own,
) => PromiseLike<OpenAiStream>;

/** What a run knows. */
export interface OpenAiRunContext {
  readonly turn: Turn;
  readonly ctx: AgentContext;
  /** For `asTool({ onStream })`: the events of that agent join the run, with its call as path. */
  readonly onStream: (nested: OpenAiNested) => Promise<void>;
}

/** The agent of a durable run, and the runner that finds its model if that is a name. */
export interface OpenAiDurable<A extends OpenAiAgent, R extends OpenAiRunner> {
  /** The agent, or a function that creates it for a run. */
  readonly agent: A | ((run: OpenAiRunContext) => A);
  readonly runner?: R;
}

/**
 * Creates an agent from the OpenAI Agents SDK. A tool that needs approval becomes a question to a
 * person, and the run continues with the answer.
 *
 * With `durable`, `start` gets the agent (and the runner) whose model calls and tool calls are
 * durable steps: after a crash, a question to a person or a move to another process, the run
 * continues, and finished calls are answered from the log. A tool call that was under way is made
 * again with the same `callId`. Without it the run starts over, and an answer applies once to the
 * same tool with the same arguments: equal calls are asked about one by one.
 *
 * After a handoff the text of the next agent belongs to the run; the events of an agent that is
 * called as a tool join the run if it got `onStream`. Under `withRetry`, use a client with
 * `maxRetries: 0`.
 */
export function openaiAgents<A extends OpenAiAgent, R extends OpenAiRunner = never>(
  start: OpenAiRun<{ readonly agent: A; readonly runner: R }>,
  durable: OpenAiDurable<A, R>,
): Agent;
export function openaiAgents(start: OpenAiRun): Agent;
export function openaiAgents(
  start: OpenAiRun | OpenAiRun<{ readonly agent: never; readonly runner: never }>,
  durable?: OpenAiDurable<OpenAiAgent, OpenAiRunner>,
): Agent {
  const given = start as OpenAiRun<{ readonly agent?: object; readonly runner?: object }>;
  if (!durable) return (turn, ctx) => runOnce(given, turn, ctx);
  if (typeof durable.agent !== 'function')
    checkDurable(durable.agent, durable.runner !== undefined);
  const agent: Agent = (turn, ctx) => runOnce(given, turn, ctx, durable);
  return Object.assign(agent, { resumable: true });
}

async function* runOnce(
  start: OpenAiRun<{ readonly agent?: object; readonly runner?: object }>,
  turn: Turn,
  ctx: AgentContext,
  durable?: OpenAiDurable<OpenAiAgent, OpenAiRunner>,
): AsyncGenerator<AgentEvent, void, undefined> {
  yield { type: 'run.started' };
  const { signal } = ctx;
  const reader = new RunReader();
  const nested = new NestedRuns(durable !== undefined);
  const about = { turn, ctx, onStream: nested.onStream };
  const own = durable && durableParts(durable, about, new DurableAgents(ctx, nested));
  const run = { ...about, ...own };
  const questionId = questionIdByContent(turn);
  let input: unknown = await opening(turn, ctx);
  for (let asked = 1; ; asked++) {
    const result = await guarded(start(input as never, { stream: true, signal }, run), signal);
    for await (const events of nested.aside.with(read(result, reader, signal)))
      for (const event of events) {
        if (!event.path) nested.onEvent(event);
        yield event;
      }
    if (result.interruptions.length === 0) return yield* ending(result);
    const calls = result.interruptions.map((interruption) => callOf(interruption));
    // Numbered also if the log has the verdicts: an equal call later must get another id.
    const ids = new Map(calls.map((call) => [call, questionId(call)]));
    const ask = async (): Promise<readonly Pick<ApprovalVerdict, 'approved'>[]> =>
      (await approve(calls, ctx, { idOf: (call) => ids.get(call) ?? '' })).map(({ approved }) => ({
        approved,
      }));
    const verdicts = await (durable ? durableAnswers(ctx, `approval ${asked}`, ask) : ask());
    for (const [index, interruption] of result.interruptions.entries())
      if (verdicts[index]?.approved) result.state.approve(interruption as never);
      else {
        reader.decline(calls[index]?.callId ?? '');
        result.state.reject(interruption as never);
      }
    input = result.state;
  }
}

function durableParts(
  { agent: given, runner }: OpenAiDurable<OpenAiAgent, OpenAiRunner>,
  run: OpenAiRunContext,
  agents: DurableAgents,
): { readonly agent: object; readonly runner?: object } {
  const agent = typeof given === 'function' ? given(run) : given;
  checkDurable(agent, runner !== undefined);
  return { agent: agents.agent(agent), ...(runner && { runner: agents.runner(runner) }) };
}

async function* read(
  result: OpenAiStream,
  reader: RunReader,
  signal: AbortSignal,
): AsyncGenerator<readonly AgentEvent[], void, undefined> {
  // The iterator of an aborted run ends without an error; only this promise reports it.
  const completed = guarded(result.completed, signal);
  // Awaited below; until then a rejection must not count as unhandled.
  completed.catch(() => {});
  yield* readModel(
    () => result,
    signal,
    (event) => [reader.read(asObject(event))],
  );
  signal.throwIfAborted();
  await completed;
}

async function guarded<T>(promise: PromiseLike<T>, signal: AbortSignal): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    signal.throwIfAborted();
    throw modelError(error, 'internal');
  }
}

function* ending({ finalOutput }: OpenAiStream): Generator<AgentEvent, void, undefined> {
  if (finalOutput === undefined || typeof finalOutput === 'string') return;
  yield { type: 'run.finished', outcome: 'completed', text: '', output: finalOutput };
}

function callOf(interruption: unknown): Pending {
  const raw = asObject(asObject(interruption)['rawItem']);
  return {
    callId: asString(raw['callId']) || asString(raw['id']),
    name: asString(raw['name']),
    args: parsed(asString(raw['arguments'])),
  };
}

async function opening(turn: Turn, ctx: AgentContext): Promise<readonly JsonObject[]> {
  const before = (await earlierMessages(turn, ctx)).map(({ role, text: words }) =>
    role === 'user'
      ? { role, content: [{ type: 'input_text', text: words }] }
      : { role, status: 'completed', content: [{ type: 'output_text', text: words }] },
  );
  return [...before, { role: 'user', content: turn.parts.map(contentOf) }];
}

function contentOf(part: Part): JsonObject {
  if (!('bytes' in part)) return { type: 'input_text', text: partText(part) };
  const url = `data:${part.mediaType};base64,${Buffer.from(part.bytes).toString('base64')}`;
  return part.mediaType.startsWith('image/')
    ? { type: 'input_image', image: url }
    : { type: 'input_file', file: url, ...(part.filename && { filename: part.filename }) };
}
