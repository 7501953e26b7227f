import { DuolaneError } from '../../errors.ts';
import { modelError } from '../../event/retry/model-error.ts';
import type { Agent, AgentContext, AgentEvent, OpenCall, Turn } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import type { ToolResult, ToolSource } from '../../mcp/types.ts';
import { merge } from '../../stream/merge.ts';
import { approve } from '../shared/approval.ts';
import { contentBlock } from '../shared/content-block.ts';
import { earlierMessages } from '../shared/earlier-messages.ts';
import { asObject } from '../../json.ts';
import { toFailure } from '../shared/safe-read.ts';
import { frameReader, type FrameReader } from '../stream-json/frame-reader.ts';
import { callTool, resultEvent, wordsIn } from '../shared/tool-call.ts';
import { StreamedMessage, type WantedCall } from './streamed-message.ts';

export type { WantedCall } from './streamed-message.ts';

/** What we use of `new Anthropic()`, the official client. */
export interface AnthropicClient {
  readonly messages: {
    create(body: never, options: never): PromiseLike<unknown>;
  };
}

export interface AnthropicOptions {
  readonly model: string;
  readonly maxTokens?: number;
  readonly system?: string;
  /** Your own tools, or those of an MCP server that was dialled. */
  readonly tools?: ToolSource;
  /** Whether a person must allow this call first. */
  readonly needsApproval?: (call: WantedCall) => boolean;
  /** Model calls of one run. */
  readonly maxSteps?: number;
  /** More for the request, such as `thinking`. With `output_config.format` the answer is the run's `output`, too. */
  readonly params?: JsonObject;
}

/**
 * The Messages API as an Agent, through the official client: no framework, just the model and the
 * loop around it. Calls of one answer are made side by side. Called again after a wait, it first
 * finishes the calls that the log has open and then tells the model their results. The client's own
 * retries are off: `withRetry` does it, where every attempt can be seen.
 */
export function anthropic(client: AnthropicClient, options: AnthropicOptions): Agent {
  const { maxSteps = 50, tools } = options;
  const run = async function* (
    turn: Turn,
    ctx: AgentContext,
  ): AsyncGenerator<AgentEvent, void, undefined> {
    yield { type: 'run.started', model: options.model };
    yield { type: 'status', message: 'Starting...' };
    const read = frameReader();
    const request = await firstRequest(options, ctx);
    let messages = await opening(turn, ctx);
    const left = ctx.task.calls.filter(({ partial }) => !partial);
    if (left.length > 0) {
      const content = left.map(({ callId, name, args }) => toolUse(callId, name, args));
      const results = yield* callAll(left, options, ctx);
      messages = [...messages, { role: 'assistant', content }, { role: 'user', content: results }];
    }
    for (let step = 1; ; step++) {
      if (step > maxSteps)
        throw new DuolaneError('max_steps', `the model was called ${maxSteps} times; that is all`);
      const answer = new StreamedMessage();
      yield* stream(client, { ...request, messages }, { read, answer }, ctx.signal);
      if (answer.stopReason === 'refusal')
        throw new DuolaneError('content_filter', 'the model refused to answer');
      messages = [...messages, { role: 'assistant', content: answer.content }];
      if (answer.calls.length > 0 && tools) {
        const results = yield* callAll(answer.calls, options, ctx);
        messages = [...messages, { role: 'user', content: results }];
      } else if (answer.stopReason !== 'pause_turn') return yield* ending(answer, options);
    }
  };
  return Object.assign(run, { continues: true });
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
  { read, answer }: { readonly read: FrameReader; readonly answer: StreamedMessage },
  signal: AbortSignal,
): AsyncGenerator<AgentEvent, void, undefined> {
  try {
    const events = await client.messages.create(body as never, { signal, maxRetries: 0 } as never);
    for await (const event of events as AsyncIterable<JsonObject>) {
      answer.take(event);
      const data = { type: 'stream_event', event };
      yield* read({ lane: 'message', direction: 'in', at: Date.now(), data });
    }
  } catch (error) {
    signal.throwIfAborted();
    throw modelError(error, 'internal');
  }
  if (answer.stopReason === undefined)
    throw new DuolaneError('network', 'the answer of the model broke off');
}

/** Makes calls side by side; gives back what the model is told of each, in the order of the calls. */
async function* callAll(
  calls: readonly OpenCall[],
  options: AnthropicOptions,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, readonly JsonObject[], undefined> {
  for (const { callId, name, args } of calls) yield { type: 'tool.called', callId, name, args };
  const told = new Map<string, JsonObject>();
  const running = calls.map((call) => callOne(call, options, ctx, told));
  yield* merge(...running);
  return calls.map(({ callId }) => told.get(callId) ?? {});
}

async function* callOne(
  call: OpenCall,
  options: AnthropicOptions,
  ctx: AgentContext,
  told: Map<string, JsonObject>,
): AsyncGenerator<AgentEvent, void, undefined> {
  const { callId } = call;
  const result = yield* attempt(call, options, ctx);
  told.set(callId, {
    type: 'tool_result',
    tool_use_id: callId,
    content: wordsIn(result),
    ...(result.isError && { is_error: true }),
  });
  yield resultEvent(call, result);
}

async function* attempt(
  call: OpenCall,
  { tools, needsApproval }: AnthropicOptions,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, ToolResult, undefined> {
  const refused = (words: string): ToolResult => ({
    content: [{ type: 'text', text: words }],
    isError: true,
  });
  if (!tools) return refused('there is no such tool');
  if (needsApproval?.(call)) {
    const [verdict] = await approve([call], ctx);
    if (!verdict?.approved) return refused(verdict?.reason ?? 'the call was not allowed');
  }
  try {
    return yield* callTool(tools, call, ctx);
  } catch (error) {
    ctx.signal.throwIfAborted();
    const { code, message } = DuolaneError.from(error);
    if (code === 'suspended') throw error;
    return refused(message);
  }
}

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
    const error = toFailure('malformed', 'the answer is not the JSON that was asked for');
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

const toolUse = (id: string, name: string, input: unknown): JsonObject => ({
  type: 'tool_use',
  id,
  name,
  input: asObject(input),
});
