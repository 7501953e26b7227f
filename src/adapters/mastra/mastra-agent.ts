import { DuolaneError } from '../../errors.ts';
import { answerBelongsTo } from '../../event/fold/entry-rules.ts';
import type { Agent, AgentContext, AgentEvent, Turn } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { toAiSdkContent } from '../ai-sdk/messages.ts';
import type { Approval } from '../ai-sdk/part-reader.ts';
import { approve } from '../shared/approval.ts';
import { earlierMessages } from '../shared/earlier-messages.ts';
import { asObject, asString } from '../../json.ts';
import { continuingAgent, readModel } from '../shared/framework-agent.ts';
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
}

/**
 * Creates an agent from an agent of Mastra 1. A tool that requires approval becomes a question to a
 * person; with the answer the suspended run continues, also after a restart if the storage of
 * Mastra is persistent. Structured output is the run's `output`. Events of its `agents` have the id
 * of their call as path. Mastra does not retry by default; use `withRetry`, which reports every
 * attempt.
 */
export function mastra(agent: MastraAgent, { options = () => ({}) }: MastraOptions = {}): Agent {
  return continuingAgent(async function* (turn, ctx) {
    yield { type: 'run.started' };
    const reader = new ChunkReader(ctx.signal);
    const settings = { ...options(turn, ctx), abortSignal: ctx.signal };
    let waiting = suspendedCalls(ctx);
    if (waiting.length === 0) {
      const messages = await opening(turn, ctx, 'memory' in settings);
      waiting = yield* reader.read(agent.stream(messages as never, settings as never));
    }
    for (let [next, ...others] = waiting; next; [next, ...others] = waiting) {
      const { callId: toolCallId, runId } = next;
      const [verdict] = await approve([next], ctx, { idOf: () => `${toolCallId}/${runId}` });
      const given = { ...settings, runId, toolCallId } as never;
      const more = yield* reader.read(
        verdict?.approved ? agent.approveToolCall(given) : agent.declineToolCall(given),
      );
      const known = new Set(others.map(({ callId }) => callId));
      waiting = [...others, ...more.filter(({ callId }) => !known.has(callId))];
    }
    const { output } = reader;
    if (output !== undefined)
      yield { type: 'run.finished', outcome: 'completed', text: '', output };
  });
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
