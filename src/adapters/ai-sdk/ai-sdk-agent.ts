import { DuolaneError } from '../../errors.ts';
import type { Agent, AgentContext, AgentEvent, Turn } from '../../event/types.ts';
import { asObject, type JsonObject } from '../../json.ts';
import { durableAnswers } from '../shared/durable-call.ts';
import { earlierMessages } from '../shared/earlier-messages.ts';
import { continuingAgent, readModel } from '../shared/framework-agent.ts';
import { approve, type ApprovalVerdict } from '../shared/approval.ts';
import { type AiSdkCallPart, type AiSdkMessage, toAiSdkContent } from './messages.ts';
import { DurableCalls, isStreamingModel } from './durable-model.ts';
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
  /** All messages of the run, in version 7; there, `response` has those of the last step only. */
  readonly responseMessages?: PromiseLike<readonly unknown[]>;
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

/** The model and the tools of a durable agent. */
export interface AiSdkDurable<Model extends object, Tools> {
  /** The model itself, not its name. */
  readonly model: Model;
  readonly tools?: Tools;
}

/** Starts a durable agent: `call` also has its model and its tools. */
export type AiSdkDurableRun<Model extends object, Tools> = (
  call: AiSdkCall & { readonly model: Model; readonly tools: Tools },
  run: { readonly turn: Turn; readonly ctx: AgentContext },
) => AiSdkResult | PromiseLike<AiSdkResult>;

/** Returns how one run starts the model. */
type Starting = (ctx: AgentContext) => AiSdkRun;

/**
 * Creates an agent from the AI SDK (5 to 7): from a function around `streamText`, or a
 * `ToolLoopAgent`.
 *
 * With `durable`, and for a `ToolLoopAgent` without `prepareCall`, each call of the model and of a
 * tool is a durable step: after a crash, a question to a person or a move to another process, the
 * run continues, and finished calls are answered from the log. A tool call that was under way is
 * made again with the same `toolCallId`. Otherwise, a run that is called again gives the model the
 * text and the waiting calls of the log only.
 *
 * A tool that needs approval becomes a question to a person. Structured output (6 and 7) is the
 * run's `output`. If a tool calls another agent and yields its UI messages, they become events
 * whose path is the id of the call.
 */
export function aiSdk<Model extends object, Tools = undefined>(
  agent: AiSdkDurableRun<Model, Tools>,
  durable: AiSdkDurable<Model, Tools>,
): Agent;
export function aiSdk(agent: AiSdkRun | AiSdkAgent): Agent;
export function aiSdk(
  agent: AiSdkDurableRun<never, never> | AiSdkRun | AiSdkAgent,
  durable?: AiSdkDurable<object, unknown>,
): Agent {
  if (durable && !isStreamingModel(durable.model))
    throw new DuolaneError(
      'invalid',
      `invalid model of aiSdk(): expected a language model, got ${typeof durable.model}; create it with a provider`,
    );
  const given = agent as AiSdkRun | AiSdkAgent;
  const starting = durable ? durableRun(given as AiSdkRun, durable) : durableAgent(given);
  if (starting) {
    const run: Agent = (turn, ctx) => runDurable(starting(ctx), turn, ctx);
    return Object.assign(run, { resumable: true });
  }
  const start: AiSdkRun =
    typeof given === 'function'
      ? given
      : ({ messages, abortSignal }) => given.stream({ messages, abortSignal });
  return continuingAgent(async function* (turn, ctx) {
    yield { type: 'run.started' };
    let messages = await opening(turn, ctx);
    const waiting = openCalls(ctx);
    if (waiting.length > 0) {
      const textSoFar: AiSdkMessage[] =
        ctx.task.text === '' ? [] : [{ role: 'assistant', content: ctx.task.text }];
      const verdicts = await approve(waiting, ctx);
      messages = [...messages, ...textSoFar, asked(waiting), toolResponses(verdicts)];
    }
    yield* loop(start, messages, turn, ctx, (approvals) => approve(approvals, ctx));
  });
}

/** A function of the app that gets durable calls instead of its own model and tools. */
const durableRun =
  (agent: AiSdkRun, { model, tools }: AiSdkDurable<object, unknown>): Starting =>
  (ctx) => {
    const calls = new DurableCalls(ctx);
    const own = { model: calls.model(model), tools: calls.tools(tools) };
    return (call, run) => agent({ ...call, ...own }, run);
  };

/**
 * A `ToolLoopAgent` whose settings have durable calls. One that prepares its calls may choose
 * another model or other tools there, which would then be called again.
 */
function durableAgent(agent: AiSdkRun | AiSdkAgent): Starting | undefined {
  if (typeof agent === 'function') return undefined;
  const settings = asObject((agent as { readonly settings?: unknown }).settings);
  const { model, tools, prepareCall } = settings;
  if (!isStreamingModel(model) || prepareCall !== undefined) return undefined;
  return (ctx) => {
    const calls = new DurableCalls(ctx);
    const value = { ...settings, model: calls.model(model), tools: calls.tools(tools) };
    const own = Object.create(agent, { settings: { value } }) as AiSdkAgent;
    return ({ messages, abortSignal }) => own.stream({ messages, abortSignal });
  };
}

async function* runDurable(
  start: AiSdkRun,
  turn: Turn,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, void, undefined> {
  yield { type: 'run.started' };
  const uses = new Map<string, number>();
  const idOf = ({ callId }: Approval): string => {
    const count = (uses.get(callId) ?? 0) + 1;
    uses.set(callId, count);
    // Answers are spent when the call of their question closes, so a later call with the same id
    // must not own the question.
    return count === 1 ? `${callId}/approval` : `${turn.messageId}/${callId}-${count}`;
  };
  let asked = 0;
  yield* loop(start, await opening(turn, ctx), turn, ctx, async (approvals) => {
    // Numbered also if the log has the verdicts: a later call with this id must get another.
    const ids = new Map(approvals.map((approval) => [approval, idOf(approval)]));
    const verdicts = await durableAnswers(ctx, `approval ${++asked}`, () =>
      approve(approvals, ctx, { idOf: (approval) => ids.get(approval) ?? '' }),
    );
    // The SDK gives an approval another id in each run.
    return approvals.map((of, index) => ({ approved: false, ...verdicts[index], of }));
  });
}

/** Streams the model, and again with the decisions of a person while calls need approval. */
async function* loop(
  start: AiSdkRun,
  opened: AiSdkMessage[],
  turn: Turn,
  ctx: AgentContext,
  decide: (approvals: readonly Approval[]) => Promise<readonly ApprovalVerdict<Approval>[]>,
): AsyncGenerator<AgentEvent, void, undefined> {
  const { signal: abortSignal } = ctx;
  const reader = new PartReader();
  let messages = opened;
  for (;;) {
    const result = await start({ messages, abortSignal, maxRetries: 0 }, { turn, ctx });
    yield* readModel(
      () => result.stream ?? result.fullStream ?? [],
      abortSignal,
      (part) => readPart(part as JsonObject, reader, abortSignal),
    );
    const approvals = reader.takeApprovals();
    if (approvals.length === 0) return yield* ending(result);
    const verdicts = await decide(approvals);
    const more = (await result.responseMessages) ?? (await result.response).messages;
    messages = [...messages, ...(more as readonly AiSdkMessage[]), toolResponses(verdicts)];
  }
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
  return [...before, { role: 'user', content: turn.parts.map(toAiSdkContent) }];
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
