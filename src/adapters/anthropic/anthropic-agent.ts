import type { Answer } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import type { Agent, AgentContext, AgentEvent, OpenCall, Turn } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import type { ToolResult, ToolSource } from '../../mcp/types.ts';
import { merge } from '../../stream/merge.ts';
import { approve } from '../shared/approval.ts';
import { continuingAgent, readModel } from '../shared/framework-agent.ts';
import { contentBlock } from '../shared/content-block.ts';
import { earlierMessages } from '../shared/earlier-messages.ts';
import { asObject } from '../../json.ts';
import { toFailure } from '../shared/tool-failure.ts';
import { frameReader, type FrameReader } from '../stream-json/frame-reader.ts';
import { callTool, resultEvent, resultText } from '../shared/tool-call.ts';
import { StreamedMessage, type WantedCall } from './streamed-message.ts';

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
 * without a framework. Calls of one model message run in parallel. A run that resumes after a
 * question first finishes the open calls of the log, and then sends their results to the model. The
 * client's own retries are off: use `withRetry`, which reports every attempt.
 */
export function anthropic(client: AnthropicClient, options: AnthropicOptions): Agent {
  const { maxSteps = 50, tools } = options;
  return continuingAgent(async function* (turn, ctx) {
    yield { type: 'run.started', model: options.model };
    yield { type: 'status', message: 'Starting...' };
    const read = frameReader();
    const request = await firstRequest(options, ctx);
    let messages = await opening(turn, ctx);
    const openCalls = ctx.task.calls.filter(({ partial }) => !partial);
    if (openCalls.length > 0) {
      const { text } = ctx.task;
      const content = [
        ...(text === '' ? [] : [{ type: 'text', text }]),
        ...openCalls.map(({ callId, name, args }) => toolUse(callId, name, args)),
      ];
      const results = yield* callAll(openCalls, options, ctx, ctx.task.answers);
      messages = [...messages, { role: 'assistant', content }, { role: 'user', content: results }];
    }
    for (let step = 1; ; step++) {
      if (step > maxSteps)
        throw new DuolaneError('max_steps', `model calls exceed maxSteps (${maxSteps})`);
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
  });
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
  const start = (): PromiseLike<unknown> =>
    client.messages.create(body as never, { signal, maxRetries: 0 } as never);
  yield* readModel(start as () => PromiseLike<AsyncIterable<JsonObject>>, signal, (event) => {
    answer.take(event);
    const data = { type: 'stream_event', event };
    return read({ lane: 'message', direction: 'in', at: Date.now(), data });
  });
  if (answer.stopReason === undefined)
    throw new DuolaneError(
      'network',
      'the stream of the model ended before its message: try again',
    );
}

/**
 * Runs calls in parallel; returns a result block for each, in the order of the calls. `known`:
 * answers of the log, for calls that an earlier run left open.
 */
async function* callAll(
  calls: readonly OpenCall[],
  options: AnthropicOptions,
  ctx: AgentContext,
  known: readonly Answer[] = [],
): AsyncGenerator<AgentEvent, readonly JsonObject[], undefined> {
  for (const { callId, name, args } of calls) yield { type: 'tool.called', callId, name, args };
  const results = new Map<string, JsonObject>();
  const running = calls.map((call) => callOne(call, options, ctx, known, results));
  yield* merge(...running);
  return calls.map(({ callId }) => results.get(callId) ?? {});
}

async function* callOne(
  call: OpenCall,
  options: AnthropicOptions,
  ctx: AgentContext,
  known: readonly Answer[],
  results: Map<string, JsonObject>,
): AsyncGenerator<AgentEvent, void, undefined> {
  const { callId } = call;
  const result = yield* attempt(call, options, ctx, known);
  results.set(callId, {
    type: 'tool_result',
    tool_use_id: callId,
    content: resultText(result),
    ...(result.isError && { is_error: true }),
  });
  yield resultEvent(call, result);
}

async function* attempt(
  call: OpenCall,
  { tools, needsApproval }: AnthropicOptions,
  ctx: AgentContext,
  known: readonly Answer[],
): AsyncGenerator<AgentEvent, ToolResult, undefined> {
  const refused = (text: string): ToolResult => ({
    content: [{ type: 'text', text }],
    isError: true,
  });
  if (!tools) return refused(`unknown tool "${call.name}"`);
  let { args } = call;
  if (needsApproval?.(call)) {
    const [verdict] = await approve([call], ctx, { edits: true });
    if (!verdict?.approved) return refused(verdict?.reason ?? 'the call was not allowed');
    args = verdict.args;
  }
  try {
    return yield* callTool(tools, { ...call, args }, ctx, known);
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

const toolUse = (id: string, name: string, input: unknown): JsonObject => ({
  type: 'tool_use',
  id,
  name,
  input: asObject(input),
});
