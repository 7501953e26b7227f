import { DuolaneError } from '../../errors.ts';
import { modelError } from '../../event/retry/model-error.ts';
import type { Agent, AgentContext, AgentEvent, Turn } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { earlierMessages } from '../shared/earlier-messages.ts';
import { approve, type ApprovalVerdict } from '../shared/approval.ts';
import { type AiSdkCallPart, type AiSdkMessage, toAiSdkContent } from './messages.ts';
import { type Approval, PartReader } from './part-reader.ts';

export type { AiSdkAnswerPart, AiSdkCallPart, AiSdkContent, AiSdkMessage } from './messages.ts';

/** What a run hands to `streamText`: spread it over your own options. */
export interface AiSdkCall {
  /** The conversation so far, then what the person sent. */
  readonly messages: AiSdkMessage[];
  readonly abortSignal: AbortSignal;
  /** Off: `withRetry` does it, where every attempt can be seen. */
  readonly maxRetries: 0;
}

/** What we use of the result of `streamText`, in the AI SDK 5 to 7. */
export interface AiSdkResult {
  readonly stream?: AsyncIterable<unknown>;
  readonly fullStream?: AsyncIterable<unknown>;
  readonly response: PromiseLike<{ readonly messages: readonly unknown[] }>;
  /** What the schema made of the answer; the plain text without one. Not in version 5. */
  readonly output?: PromiseLike<unknown>;
}

/** A `ToolLoopAgent` of the AI SDK. Its own `maxRetries` counts: set it to 0 under `withRetry`. */
export interface AiSdkAgent {
  stream(call: {
    readonly messages: AiSdkMessage[];
    readonly abortSignal: AbortSignal;
  }): AiSdkResult | PromiseLike<AiSdkResult>;
}

/** Starts the model: `(call) => streamText({ model, tools, ...call })`. */
export type AiSdkRun = (
  call: AiSdkCall,
  run: { readonly turn: Turn; readonly ctx: AgentContext },
) => AiSdkResult | PromiseLike<AiSdkResult>;

/**
 * An agent of the AI SDK (5 to 7): a function around `streamText`, or a `ToolLoopAgent`.
 *
 * A tool that needs approval becomes a question to a person; with the answer the run goes on where
 * it was, in this process with all messages of the run, after a restart with the calls and the text
 * that the log has. Structured output (6 and 7) is the run's `output`. A tool that asks another
 * agent and yields its UI messages is heard: what that agent says has the id of the call as its path.
 */
export function aiSdk(agent: AiSdkRun | AiSdkAgent): Agent {
  const start: AiSdkRun =
    typeof agent === 'function'
      ? agent
      : ({ messages, abortSignal }) => agent.stream({ messages, abortSignal });
  const run = async function* (
    turn: Turn,
    ctx: AgentContext,
  ): AsyncGenerator<AgentEvent, void, undefined> {
    yield { type: 'run.started' };
    const { signal: abortSignal } = ctx;
    const reader = new PartReader();
    let messages = await opening(turn, ctx);
    const left = leftOpen(ctx);
    if (left.length > 0)
      messages = [...messages, asked(left), toolResponses(await approve(left, ctx))];
    for (;;) {
      const result = await start({ messages, abortSignal, maxRetries: 0 }, { turn, ctx });
      yield* read(result, reader, abortSignal);
      const approvals = reader.takeApprovals();
      if (approvals.length === 0) return yield* ending(result);
      const verdicts = await approve(approvals, ctx);
      const { messages: more } = await result.response;
      messages = [...messages, ...(more as readonly AiSdkMessage[]), toolResponses(verdicts)];
    }
  };
  return Object.assign(run, { continues: true });
}

async function* read(
  result: AiSdkResult,
  reader: PartReader,
  signal: AbortSignal,
): AsyncGenerator<AgentEvent, void, undefined> {
  try {
    for await (const part of result.stream ?? result.fullStream ?? []) {
      yield* reader.read(part as JsonObject);
      if ((part as JsonObject)['type'] !== 'abort') continue;
      signal.throwIfAborted();
      throw new DuolaneError('timeout', 'the model took longer than the AI SDK was told to wait');
    }
  } catch (error) {
    signal.throwIfAborted();
    throw modelError(error, 'internal');
  }
}

/** The end, with the object that the schema asked for; an answer that does not fit it fails the run. */
async function* ending({ output }: AiSdkResult): AsyncGenerator<AgentEvent, void, undefined> {
  if (output === undefined) return;
  let value: unknown;
  try {
    value = await output;
  } catch (error) {
    throw new DuolaneError('malformed', `the answer does not fit: ${String(error)}`, {
      cause: error,
    });
  }
  if (typeof value === 'string' || value === undefined) return;
  yield { type: 'run.finished', outcome: 'completed', text: '', output: value };
}

async function opening(turn: Turn, ctx: AgentContext): Promise<AiSdkMessage[]> {
  const before = (await earlierMessages(turn, ctx)).map(({ role, text }): AiSdkMessage =>
    role === 'user' ? { role, content: [{ type: 'text', text }] } : { role, content: text },
  );
  const said: AiSdkMessage[] =
    leftOpen(ctx).length > 0 && ctx.task.text !== ''
      ? [{ role: 'assistant', content: ctx.task.text }]
      : [];
  return [...before, { role: 'user', content: turn.parts.map(toAiSdkContent) }, ...said];
}

/** Calls that waited for a person when an earlier run of this turn was put to sleep. */
const leftOpen = ({ task }: AgentContext): readonly Approval[] =>
  task.calls
    .filter(({ partial }) => !partial)
    .map(({ callId, name, args }) => ({ approvalId: callId, callId, name, args }));

const asked = (approvals: readonly Approval[]): AiSdkMessage => ({
  role: 'assistant',
  content: approvals.flatMap(({ approvalId, callId, name, args }): AiSdkCallPart[] => [
    { type: 'tool-call', toolCallId: callId, toolName: name, input: args },
    { type: 'tool-approval-request', approvalId, toolCallId: callId },
  ]),
});

const toolResponses = (verdicts: readonly ApprovalVerdict<Approval>[]): AiSdkMessage => ({
  role: 'tool',
  content: verdicts.map(({ of: { approvalId }, approved, reason }) => ({
    type: 'tool-approval-response',
    approvalId,
    approved,
    ...(reason !== undefined && { reason }),
  })),
});
