import type { Answer } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import type { Agent, AgentContext, AgentEvent, Frame, OpenCall, Turn } from '../../event/types.ts';
import type { ToolResult, ToolSource } from '../../mcp/types.ts';
import { merge } from '../../stream/merge.ts';
import { approve } from '../shared/approval.ts';
import { durableAnswers, durableCall } from '../shared/durable-call.ts';
import { readModel } from '../shared/framework-agent.ts';
import { contentBlock } from '../shared/content-block.ts';
import { earlierMessages } from '../shared/earlier-messages.ts';
import { asObject, isObject, type JsonObject } from '../../json.ts';
import { toFailure } from '../shared/tool-failure.ts';
import { frameReader, type FrameReader } from '../stream-json/frame-reader.ts';
import {
  askAll,
  callToolOnce,
  invalidArguments,
  resultEvent,
  resultText,
  type ToolRound,
} from '../shared/tool-call.ts';
import {
  type StoredMessage,
  StreamedMessage,
  UniqueCallIds,
  type WantedCall,
} from './streamed-message.ts';

export type { WantedCall } from './streamed-message.ts';

/** The part of `new Anthropic()`, the official client, that the adapter uses. */
export interface AnthropicClient {
  readonly messages: {
    create(body: never, options: never): PromiseLike<unknown>;
  };
}

/** Options of `anthropic()`. */
export interface AnthropicOptions {
  readonly model: string;
  readonly maxTokens?: number;
  readonly system?: string;
  /** Your own tools, or those of a dialled MCP server. */
  readonly tools?: ToolSource;
  /** Whether a person must allow this call first. */
  readonly needsApproval?: (call: WantedCall) => boolean;
  /** How many model calls a run may make; 50 by default. */
  readonly maxSteps?: number;
  /**
   * More members of the request, such as `thinking`. With `output_config.format` the message is
   * also the run's `output`.
   */
  readonly params?: JsonObject;
}

/**
 * Creates an agent from the official client of the Messages API: the model and the loop around it,
 * without a framework. Calls of one model message run in parallel. Each model call and each tool
 * call is a durable step: after a crash, a question to a person or a move to another process, the
 * run continues, and finished calls are answered from the log. A tool call that was under way is
 * made again with the same id. The client's own retries are off: use `withRetry`, which reports
 * every attempt.
 */
export function anthropic(client: AnthropicClient, options: AnthropicOptions): Agent {
  const { maxSteps = 50, tools } = options;
  const agent: Agent = async function* (turn, ctx) {
    yield { type: 'run.started', model: options.model };
    yield { type: 'status', message: 'Starting...' };
    const read = frameReader();
    const callIds = new UniqueCallIds();
    const request = await firstRequest(options, ctx);
    let messages = await opening(turn, ctx);
    const goesOn = (answer: StreamedMessage): boolean =>
      answer.stopReason === 'pause_turn' || (answer.calls.length > 0 && tools !== undefined);
    for (let step = 1; ; step++) {
      if (step > maxSteps)
        throw new DuolaneError('max_steps', `model calls exceed maxSteps (${maxSteps})`);
      const body = { ...request, messages };
      const { value, isNew } = yield* durableCall(
        ctx,
        `model ${step}`,
        () => stream(client, body, { read, callIds }, ctx.signal),
        (stored) => goesOn(new StreamedMessage(stored)),
      );
      const answer = new StreamedMessage(value);
      if (!isNew) for (const event of answer.events()) yield* read(frameOf(callIds.keep(event)));
      if (answer.stopReason === 'refusal')
        throw new DuolaneError('content_filter', 'the model refused to answer');
      messages = [...messages, { role: 'assistant', content: answer.content }];
      if (!goesOn(answer)) return yield* ending(answer, options);
      if (answer.calls.length === 0 || !tools) continue;
      const results = yield* callAll(answer.calls, step, options, ctx);
      messages = [...messages, { role: 'user', content: results }];
    }
  };
  return Object.assign(agent, { resumable: true });
}

async function firstRequest(
  { model, maxTokens = 1024, system, tools, params }: AnthropicOptions,
  { signal }: AgentContext,
): Promise<JsonObject> {
  const list: JsonObject[] = [];
  for await (const { name, description, inputSchema } of tools?.listTools({ signal }) ?? [])
    list.push({
      name,
      ...(description !== undefined && { description }),
      input_schema: inputSchema,
    });
  return {
    ...params,
    model,
    max_tokens: maxTokens,
    stream: true,
    ...(system !== undefined && { system }),
    ...(list.length > 0 && { tools: list }),
  };
}

async function* stream(
  client: AnthropicClient,
  body: JsonObject,
  { read, callIds }: { readonly read: FrameReader; readonly callIds: UniqueCallIds },
  signal: AbortSignal,
): AsyncGenerator<AgentEvent, StoredMessage, undefined> {
  const answer = new StreamedMessage();
  const start = (): PromiseLike<unknown> =>
    client.messages.create(body as never, { signal, maxRetries: 0 } as never);
  yield* readModel(start as () => PromiseLike<AsyncIterable<JsonObject>>, signal, (given) => {
    const event = callIds.rename(given);
    answer.take(event);
    return read(frameOf(event));
  });
  if (answer.stopReason === undefined)
    throw new DuolaneError(
      'network',
      'the stream of the model ended before its message: try again',
    );
  return answer.stored;
}

const frameOf = (event: JsonObject): Frame => ({
  lane: 'message',
  direction: 'in',
  at: Date.now(),
  data: { type: 'stream_event', event },
});

const NO_TEXT = '(no text)';

/** Runs calls in parallel; returns a result block for each, in the order of the calls. */
async function* callAll(
  calls: readonly OpenCall[],
  step: number,
  options: AnthropicOptions,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, readonly JsonObject[], undefined> {
  for (const { callId, name, args } of calls) yield { type: 'tool.called', callId, name, args };
  const results = new Map<string, JsonObject>();
  const running = calls.map((call, index) =>
    // The position names the step: an id of the provider may be too long for that.
    callOne(call, `tool ${step}.${index + 1}`, options, ctx, results),
  );
  yield* merge(...running);
  return calls.map(({ callId }) => results.get(callId) ?? {});
}

async function* callOne(
  call: OpenCall,
  id: string,
  options: AnthropicOptions,
  ctx: AgentContext,
  results: Map<string, JsonObject>,
): AsyncGenerator<AgentEvent, void, undefined> {
  const { callId } = call;
  const result = yield* attempt(call, id, options, ctx);
  results.set(callId, {
    type: 'tool_result',
    tool_use_id: callId,
    // The API refuses the history for a failed call without a text.
    content: resultText(result) || NO_TEXT,
    ...(result.isError && { is_error: true }),
  });
  yield resultEvent(call, result);
}

/**
 * Makes a call, and repeats it with the answers of a person while the tool asks for more. Each
 * request to the tool is a step of its own, since a step must not wait for a person.
 */
async function* attempt(
  call: OpenCall,
  id: string,
  { tools, needsApproval }: AnthropicOptions,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, ToolResult, undefined> {
  if (!tools) return refused(`unknown tool "${call.name}"`);
  let { args } = call;
  if (!isObject(args)) return invalidArguments(call.name);
  if (needsApproval?.(call)) {
    const [verdict] = await durableAnswers(ctx, `${id} approval`, () =>
      approve([call], ctx, { edits: true }),
    );
    if (!verdict?.approved) return refused(verdict?.reason ?? 'the call was not allowed');
    args = verdict.args;
  }
  let answers: readonly Answer[] = [];
  let state: string | undefined;
  for (let round = 1; ; round++) {
    const input = { answers, state };
    const { value, isNew } = yield* durableCall(ctx, `${id}${round > 1 ? `.${round}` : ''}`, () =>
      callToolSafely(tools, { ...call, args }, ctx, input),
    );
    if ('result' in value) return value.result;
    const asked = await durableAnswers(ctx, `${id} answers ${round}`, () =>
      askAll(value.requests, ctx),
    );
    answers = [...answers, ...asked];
    // The state of another process may mean nothing here. The answers alone repeat the call.
    state = isNew ? value.state : undefined;
  }
}

/** Calls a tool once. An error of the call itself is a result that the model gets. */
async function* callToolSafely(
  tools: ToolSource,
  call: OpenCall,
  ctx: AgentContext,
  input: Parameters<typeof callToolOnce>[3],
): AsyncGenerator<AgentEvent, ToolRound, undefined> {
  try {
    return yield* callToolOnce(tools, call, ctx, input);
  } catch (error) {
    ctx.signal.throwIfAborted();
    const { code, message } = DuolaneError.from(error);
    if (code === 'suspended') throw error;
    return { result: refused(message) };
  }
}

const refused = (text: string): ToolResult => ({
  content: [{ type: 'text', text }],
  isError: true,
});

function* ending(
  answer: StreamedMessage,
  { params = {} }: AnthropicOptions,
): Generator<AgentEvent, void, undefined> {
  if (asObject(asObject(params['output_config'])['format'])['type'] !== 'json_schema') return;
  try {
    const output: unknown = JSON.parse(answer.text);
    yield { type: 'run.finished', outcome: 'completed', text: '', output };
  } catch {
    // The error is that the text is not JSON; the parser's message adds nothing.
    const error = toFailure('malformed', 'the model sent text: expected JSON of the given schema');
    yield { type: 'run.finished', outcome: 'failed', text: '', error };
  }
}

async function opening(turn: Turn, ctx: AgentContext): Promise<readonly JsonObject[]> {
  const before = (await earlierMessages(turn, ctx)).map(({ role, text }) => ({
    role,
    content: text,
  }));
  return [...before, { role: 'user', content: turn.parts.map(contentBlock) }];
}
