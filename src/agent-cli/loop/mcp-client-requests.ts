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
import type { ChosenModel } from '../models/choose-model.ts';
import type { Block, ChatMessage } from '../models/types.ts';

/** What the handlers of requests from MCP servers need. */
export interface ServerRequests {
  readonly lane: ControlLink;
  readonly cwd: string;
  readonly model: () => ChosenModel;
}

/** Handles `elicitation/create`, `sampling/createMessage` and `roots/list` of an MCP server. */
export async function answerServer(
  { lane, cwd, model }: ServerRequests,
  server: string,
  method: string,
  params: JsonObject,
  signal: AbortSignal,
): Promise<JsonObject> {
  switch (method) {
    case 'roots/list':
      return { roots: [{ uri: pathToFileURL(cwd).href, name: 'working directory' }] };
    case 'elicitation/create':
      return elicitFromHost(lane, server, params, signal);
    case 'sampling/createMessage':
      return sample(model(), params, signal);
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

/** Runs a sampling request with the model of the session, without its history and tools. */
async function sample(
  chosen: ChosenModel,
  params: JsonObject,
  signal: AbortSignal,
): Promise<JsonObject> {
  const messages = asArray(params['messages']).map((value): ChatMessage => {
    const { role, content } = asObject(value);
    const blocks = (Array.isArray(content) ? content : [content]).map((part) =>
      toBlock(asObject(part)),
    );
    return { role: role === 'assistant' ? 'assistant' : 'user', content: blocks };
  });
  const { maxTokens } = params;
  const request = {
    model: chosen.id,
    system: asString(params['systemPrompt']),
    messages,
    tools: [],
    maxTokens: typeof maxTokens === 'number' ? maxTokens : 1000,
  };
  let text = '';
  let stopReason = 'endTurn';
  for await (const event of chosen.model.stream(request, { signal })) {
    if (event.type === 'text') text += event.text;
    if (event.type === 'stop' && event.reason === 'max_tokens') stopReason = 'maxTokens';
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
