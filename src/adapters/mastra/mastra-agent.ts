import { DuolaneError } from '../../errors.ts';
import { answerBelongsTo } from '../../event/fold/entry-rules.ts';
import type { Agent, AgentContext, AgentEvent, Turn } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { toAiSdkContent } from '../ai-sdk/messages.ts';
import type { Approval } from '../ai-sdk/part-reader.ts';
import { approve, questionIdByContent } from '../shared/approval.ts';
import { durableAnswers } from '../shared/durable-call.ts';
import { earlierMessages } from '../shared/earlier-messages.ts';
import { asObject, asString } from '../../json.ts';
import { continuingAgent, readModel } from '../shared/framework-agent.ts';
import { durableAgent, isForkable } from './durable-agent.ts';
import { NestedAgent } from './nested-agent.ts';

/** The part of a Mastra stream that the adapter uses. */
export interface MastraStream {
  readonly fullStream: AsyncIterable<unknown>;
  readonly runId: string;
}

/** The part of an `Agent` of Mastra 1 that the adapter uses. */
export interface MastraAgent {
  stream(messages: never, options: never): PromiseLike<MastraStream>;
  approveToolCall(options: never): PromiseLike<MastraStream>;
  declineToolCall(options: never): PromiseLike<MastraStream>;
}

/** Options of `mastra()`. */
export interface MastraOptions {
  /**
   * More options of the stream, such as `structuredOutput`, `maxSteps` or `memory`. With `memory`
   * the agent stores the conversation itself; without, the adapter sends the earlier messages.
   */
  readonly options?: (turn: Turn, ctx: AgentContext) => JsonObject;
  /**
   * Whether model calls and tool calls are durable steps; `true` by default. Set it to `false` if
   * `options` has `memory`: a run that starts over would find its own messages there.
   */
  readonly durable?: boolean;
}

/**
 * Creates an agent from an agent of Mastra 1. Its model calls and tool calls are durable steps:
 * after a crash, a question to a person or a move to another process, the run continues, and
 * finished calls are answered from the log. A tool call that was under way is made again with the
 * same `toolCallId`.
 *
 * A tool that requires approval becomes a question to a person. With `durable: false` the suspended
 * run of Mastra continues with the answer, after a restart only if the storage of Mastra is
 * persistent. Structured output is the run's `output`. Events of its `agents` have the id of their
 * call as path. Mastra does not retry by default; use `withRetry`, which reports every attempt.
 */
export function mastra(
  agent: MastraAgent,
  { options = () => ({}), durable = true }: MastraOptions = {},
): Agent {
  if (durable && isForkable(agent)) {
    const run: Agent = (turn, ctx) => runDurable(agent, options(turn, ctx), turn, ctx);
    return Object.assign(run, { resumable: true });
  }
  return continuingAgent((turn, ctx) => {
    const settings = { ...options(turn, ctx), abortSignal: ctx.signal };
    const decide = async (call: Suspended): Promise<boolean> => {
      const idOf = (): string => `${call.callId}/${call.runId}`;
      const [verdict] = await approve([call], ctx, { idOf });
      return verdict?.approved ?? false;
    };
    return loop(agent, settings, turn, ctx, suspendedCalls(ctx), decide);
  });
}

function runDurable(
  agent: Parameters<typeof durableAgent>[0],
  own: JsonObject,
  turn: Turn,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, void, undefined> {
  if ('memory' in own)
    throw new DuolaneError(
      'invalid',
      'invalid options of mastra(): expected no `memory` for a durable run; set `durable: false`',
    );
  const questionId = questionIdByContent(turn);
  let asked = 0;
  const decide = async (call: Suspended): Promise<boolean> => {
    // Numbered also if the log has the verdict: an equal call later must get another id.
    const id = questionId(call);
    const { approved } = await durableAnswers(ctx, `approval ${++asked}`, async () => {
      const [verdict] = await approve([call], ctx, { idOf: () => id });
      return { approved: verdict?.approved ?? false };
    });
    return approved;
  };
  const settings = { ...own, abortSignal: ctx.signal };
  return loop(durableAgent(agent, ctx), settings, turn, ctx, [], decide);
}

/** Streams the agent, and again with the decisions of a person while calls need approval. */
async function* loop(
  agent: MastraAgent,
  settings: JsonObject,
  turn: Turn,
  ctx: AgentContext,
  suspended: readonly Suspended[],
  decide: (call: Suspended) => Promise<boolean>,
): AsyncGenerator<AgentEvent, void, undefined> {
  yield { type: 'run.started' };
  const reader = new ChunkReader(ctx.signal);
  let waiting = suspended;
  if (waiting.length === 0) {
    const messages = await opening(turn, ctx, 'memory' in settings);
    waiting = yield* reader.read(agent.stream(messages as never, settings as never));
  }
  for (let [next, ...others] = waiting; next; [next, ...others] = waiting) {
    const { callId: toolCallId, runId } = next;
    const approved = await decide(next);
    const given = { ...settings, runId, toolCallId } as never;
    const more = yield* reader.read(
      approved ? agent.approveToolCall(given) : agent.declineToolCall(given),
    );
    const known = new Set(others.map(({ callId }) => callId));
    waiting = [...others, ...more.filter(({ callId }) => !known.has(callId))];
  }
  const { output } = reader;
  if (output !== undefined) yield { type: 'run.finished', outcome: 'completed', text: '', output };
}

/** A call for which a run of Mastra is suspended. */
interface Suspended extends Approval {
  readonly runId: string;
}

class ChunkReader {
  readonly #signal: AbortSignal;
  readonly #agent = new NestedAgent();
  output: unknown;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** Reads one stream to its end; returns the calls for which the run is suspended. */
  async *read(
    starting: PromiseLike<MastraStream>,
  ): AsyncGenerator<AgentEvent, readonly Suspended[], undefined> {
    const chunks = async (): Promise<AsyncIterable<unknown>> => (await starting).fullStream;
    yield* readModel(chunks, this.#signal, (item) => {
      const chunk = asObject(item);
      this.#notice(asString(chunk['type']), asObject(chunk['payload']), chunk);
      return this.#agent.read(chunk);
    });
    const { runId } = await starting;
    return this.#agent.takeApprovals().map((approval) => ({ ...approval, runId }));
  }

  /** Handles the chunks that only Mastra has. */
  #notice(type: string, payload: JsonObject, chunk: JsonObject): void {
    if (type === 'object-result') this.output = chunk['object'] ?? payload['object'];
    if (type === 'tripwire') {
      const reason = asString(payload['reason']) || 'a guardrail of the agent stopped the run';
      throw new DuolaneError('content_filter', reason);
    }
    if (type !== 'abort') return;
    this.#signal.throwIfAborted();
    throw new DuolaneError('interrupted', 'the run was aborted by Mastra');
  }
}

/**
 * Calls for which an earlier run of this turn was suspended, with the id of Mastra's waiting run.
 */
function suspendedCalls({ task }: AgentContext): readonly Suspended[] {
  return task.calls.flatMap(({ callId, name, args }) => {
    const answer = task.answers.find((each) => answerBelongsTo(each, task.answered ?? [], callId));
    if (!answer) return [];
    return [{ approvalId: callId, callId, name, args, runId: answer.id.slice(callId.length + 1) }];
  });
}

async function opening(turn: Turn, ctx: AgentContext, remembers: boolean): Promise<unknown[]> {
  const before = remembers ? [] : await earlierMessages(turn, ctx);
  return [
    ...before.map(({ role, text: content }) => ({ role, content })),
    { role: 'user', content: turn.parts.map(toAiSdkContent) },
  ];
}
