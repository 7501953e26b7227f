import { pathToFileURL } from 'node:url';
import { DuolaneError } from '../../errors.ts';
import {
  asArray,
  asObject,
  asString,
  isObject,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';
import type { ControlLink } from '../../wire/control-link.ts';
import { maySample, type SamplingPolicy } from '../command-line/settings.ts';
import type { ChosenModel } from '../models/choose-model.ts';
import type { Block, ChatMessage, TokenUsage } from '../models/types.ts';

/**
 * The limit of characters of a sampling request: the server writes the prompt, the user pays for
 * it.
 */
const MAX_SAMPLING_CHARS = 100_000;

/** What the handlers of requests from MCP servers need. */
export interface ServerRequests {
  readonly lane: ControlLink;
  readonly cwd: string;
  readonly model: () => ChosenModel;
  readonly sampling: SamplingPolicy;
  /** Counts a sampling request. Throws if the server has used its requests up. */
  readonly countSampling: (server: string) => void;
  /** Adds the tokens of a sampling request to those of the session. */
  readonly addUsage: (usage: TokenUsage, model: ChosenModel) => void;
}

/** Handles `elicitation/create`, `sampling/createMessage` and `roots/list` of an MCP server. */
export async function answerServer(
  requests: ServerRequests,
  server: string,
  method: string,
  params: JsonObject,
  signal: AbortSignal,
): Promise<JsonObject> {
  const { lane, cwd } = requests;
  switch (method) {
    case 'roots/list':
      return { roots: [{ uri: pathToFileURL(cwd).href, name: 'working directory' }] };
    case 'elicitation/create':
      return elicitFromHost(lane, server, params, signal);
    case 'sampling/createMessage':
      return sample(requests, server, params, signal);
    default:
      throw new DuolaneError('unsupported', `method "${method}" is not supported`);
  }
}

/** Asks the user of the host a question of an MCP server. Other results than a decision cancel. */
export async function elicitFromHost(
  lane: ControlLink,
  server: string,
  params: JsonObject,
  signal: AbortSignal,
): Promise<JsonObject> {
  const request = {
    subtype: 'elicitation',
    mcp_server_name: server,
    message: asString(params['message']),
    mode: asString(params['mode'], 'form'),
    ...omitUndefined({
      requested_schema: params['requestedSchema'],
      url: params['url'],
      elicitation_id: params['elicitationId'],
    }),
  };
  const answer = asObject(await lane.request(request, { signal }));
  const { action, content } = answer;
  if (action !== 'accept' && action !== 'decline') return { action: 'cancel' };
  return { action, ...(action === 'accept' && isObject(content) && { content }) };
}

/**
 * Runs a sampling request with the model of the session, without its history and tools. Throws
 * `unauthorized` unless the settings allow it, and `too_large` beyond their limits.
 */
async function sample(
  { model, sampling, countSampling, addUsage }: ServerRequests,
  server: string,
  params: JsonObject,
  signal: AbortSignal,
): Promise<JsonObject> {
  if (!maySample(sampling, server))
    throw new DuolaneError(
      'unauthorized',
      `sampling is not allowed for MCP server "${server}"; name it in the setting sampling.servers`,
    );
  countSampling(server);
  const { messages: given, systemPrompt, maxTokens } = params;
  if (JSON.stringify([given, systemPrompt]).length > MAX_SAMPLING_CHARS)
    throw new DuolaneError(
      'too_large',
      `the sampling request exceeds the limit of ${MAX_SAMPLING_CHARS} characters; send less`,
    );
  const messages = asArray(given).map((value): ChatMessage => {
    const { role, content } = asObject(value);
    const blocks = (Array.isArray(content) ? content : [content]).map((part) =>
      toBlock(asObject(part)),
    );
    return { role: role === 'assistant' ? 'assistant' : 'user', content: blocks };
  });
  const wanted = typeof maxTokens === 'number' && maxTokens >= 1 ? Math.floor(maxTokens) : 1000;
  const chosen = model();
  const request = {
    model: chosen.id,
    system: asString(systemPrompt),
    messages,
    tools: [],
    maxTokens: Math.min(wanted, sampling.maxTokens),
  };
  let text = '';
  let stopReason = 'endTurn';
  for await (const event of chosen.model.stream(request, { signal })) {
    if (event.type === 'text') text += event.text;
    if (event.type !== 'stop') continue;
    if (event.reason === 'max_tokens') stopReason = 'maxTokens';
    addUsage(event.usage, chosen);
  }
  return {
    role: 'assistant',
    model: chosen.model.name,
    content: { type: 'text', text },
    stopReason,
  };
}

const toBlock = (part: JsonObject): Block =>
  part['type'] === 'image'
    ? {
        type: 'image',
        source: { type: 'base64', media_type: part['mimeType'], data: part['data'] },
      }
    : { type: 'text', text: asString(part['text']) };
