import { DuolaneError } from '../../errors.ts';
import type { Agent, AgentContext, AgentEvent, Turn } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { earlierMessages } from '../shared/earlier-messages.ts';
import { continuingAgent, readModel } from '../shared/framework-agent.ts';
import { approve, type ApprovalVerdict } from '../shared/approval.ts';
import { type AiSdkCallPart, type AiSdkMessage, toAiSdkContent } from './messages.ts';
import { type Approval, PartReader } from './part-reader.ts';

export type { AiSdkAnswerPart, AiSdkCallPart, AiSdkContent, AiSdkMessage } from './messages.ts';

/** Options for `streamText`: spread them over your own. */
export interface AiSdkCall {
  /** The conversation so far, then the new user message. */
  readonly messages: AiSdkMessage[];
  readonly abortSignal: AbortSignal;
  /** Off: use `withRetry`, which reports every attempt. */
  readonly maxRetries: 0;
}

/** The part of the result of `streamText`, in the AI SDK 5 to 7, that the adapter uses. */
export interface AiSdkResult {
  readonly stream?: AsyncIterable<unknown>;
  readonly fullStream?: AsyncIterable<unknown>;
  readonly response: PromiseLike<{ readonly messages: readonly unknown[] }>;
  /** The object of the schema, or the text if no schema was given. Not in version 5. */
  readonly output?: PromiseLike<unknown>;
}

/** A `ToolLoopAgent` of the AI SDK. Set its `maxRetries` to 0 under `withRetry`. */
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
 * Creates an agent from the AI SDK (5 to 7): from a function around `streamText`, or a
 * `ToolLoopAgent`.
 *
 * A tool that needs approval becomes a question to a person. With the answer the run continues: in
 * this process with all messages of the run, after a restart with the calls and the text of the
 * log. Structured output (6 and 7) is the run's `output`. If a tool calls another agent and yields
 * its UI messages, they become events whose path is the id of the call.
 */
export function aiSdk(agent: AiSdkRun | AiSdkAgent): Agent {
  const start: AiSdkRun =
    typeof agent === 'function'
      ? agent
      : ({ messages, abortSignal }) => agent.stream({ messages, abortSignal });
  return continuingAgent(async function* (turn, ctx) {
    yield { type: 'run.started' };
    const { signal: abortSignal } = ctx;
    const reader = new PartReader();
    let messages = await opening(turn, ctx);
    const waiting = openCalls(ctx);
    if (waiting.length > 0)
      messages = [...messages, asked(waiting), toolResponses(await approve(waiting, ctx))];
    for (;;) {
      const result = await start({ messages, abortSignal, maxRetries: 0 }, { turn, ctx });
      yield* readModel(
        () => result.stream ?? result.fullStream ?? [],
        abortSignal,
        (part) => readPart(part as JsonObject, reader, abortSignal),
      );
      const approvals = reader.takeApprovals();
      if (approvals.length === 0) return yield* ending(result);
      const verdicts = await approve(approvals, ctx);
      const { messages: more } = await result.response;
      messages = [...messages, ...(more as readonly AiSdkMessage[]), toolResponses(verdicts)];
    }
  });
}

function readPart(
  part: JsonObject,
  reader: PartReader,
  signal: AbortSignal,
): readonly AgentEvent[] {
  if (part['type'] !== 'abort') return reader.read(part);
  signal.throwIfAborted();
  throw new DuolaneError('timeout', 'the model call exceeded the timeout of the AI SDK');
}

/** The end of a run with the object of the schema. Output that does not match fails the run. */
async function* ending({ output }: AiSdkResult): AsyncGenerator<AgentEvent, void, undefined> {
  if (output === undefined) return;
  let value: unknown;
  try {
    value = await output;
  } catch (error) {
    throw new DuolaneError('malformed', `the model sent invalid output: ${String(error)}`, {
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
  const textSoFar: AiSdkMessage[] =
    openCalls(ctx).length > 0 && ctx.task.text !== ''
      ? [{ role: 'assistant', content: ctx.task.text }]
      : [];
  return [...before, { role: 'user', content: turn.parts.map(toAiSdkContent) }, ...textSoFar];
}

/** Calls that waited for a person when an earlier run of this turn was suspended. */
const openCalls = ({ task }: AgentContext): readonly Approval[] =>
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
