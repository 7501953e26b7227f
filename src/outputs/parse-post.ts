import { DuolaneError } from '../errors.ts';
import type { Part } from '../event/types.ts';
import { asObject, asObjects, isObject, type JsonObject } from '../json.ts';
import {
  postedFilePart,
  type PostedAnswer,
  nonEmptyFields,
  type PostedTurn,
  required,
  string,
} from './posted-turn.ts';

/**
 * Parses a POST of `useChat` (also through assistant-ui): the chat with its messages, of which the
 * last is new. A user message is a turn; an assistant message carries approvals and tool outputs.
 * Regenerating and editing a message start new turns. Other members of the body become the turn's
 * metadata. Throws `invalid`.
 */
export function readUiPost(body: JsonObject): PostedTurn {
  const { id: _id, messages, trigger, messageId, ...metadata } = body;
  const context = required(body, 'id');
  const last = asObjects(messages).at(-1);
  const parts = asObjects(last?.['parts']);
  if (last?.['role'] === 'assistant') {
    const within = required(last, 'id');
    const given = parts.flatMap(uiAnswer);
    return { context, messageId: undefined, parts: [], given, within, metadata };
  }
  if (last?.['role'] !== 'user')
    throw new DuolaneError(
      'invalid',
      'invalid messages: expected the last one to have the role user or assistant',
    );
  const again = trigger === 'regenerate-message' || string(messageId) !== undefined;
  return {
    context,
    messageId: again ? undefined : `${context}/${required(last, 'id')}`,
    parts: parts.flatMap(uiPart),
    given: [],
    metadata,
  };
}

function uiPart(part: JsonObject): Part[] {
  const type = string(part['type']) ?? '';
  if (type === 'text') return [{ text: string(part['text']) ?? '' }];
  if (type === 'file')
    return [
      postedFilePart(required(part, 'url'), string(part['mediaType']), string(part['filename'])),
    ];
  return type.startsWith('data-') ? [{ data: part['data'] }] : [];
}

function uiAnswer(part: JsonObject): PostedAnswer[] {
  const approval = asObject(part['approval']);
  switch (part['state']) {
    case 'approval-responded': {
      const action = approval['approved'] === true ? 'accept' : 'decline';
      return [{ id: required(approval, 'id'), action }];
    }
    case 'output-available':
      return part['providerExecuted'] === true
        ? []
        : [{ id: required(part, 'toolCallId'), content: part['output'] }];
    case 'output-error':
      return part['providerExecuted'] === true
        ? []
        : [{ id: required(part, 'toolCallId'), action: 'decline', content: part['errorText'] }];
    default:
      return [];
  }
}

/**
 * Parses a POST of an AG-UI client (`RunAgentInput`). A user message at the end is a turn; `resume`
 * and tool messages at the end are answers. `state`, `context`, `tools` and `forwardedProps` become
 * the turn's metadata. The same run posted again is the same turn. Throws `invalid`.
 */
export function readAgUiPost(body: JsonObject): PostedTurn {
  const context = required(body, 'threadId');
  const runId = required(body, 'runId');
  const messages = asObjects(body['messages']);
  const last = messages.at(-1);
  const given = asObjects(body['resume']).map(resumed);
  for (const message of messages.toReversed()) {
    if (message['role'] !== 'tool') break;
    given.push({
      id: required(message, 'toolCallId'),
      content: message['error'] ?? message['content'],
      ...(message['error'] !== undefined && { action: 'decline' as const }),
    });
  }
  const { protocolVersion, state, tools, forwardedProps } = body;
  return {
    context,
    messageId: `${context}/${runId}`,
    parts: last?.['role'] === 'user' && given.length === 0 ? agUiParts(last['content']) : [],
    given,
    metadata: {
      runId,
      ...nonEmptyFields({
        protocolVersion,
        state,
        tools,
        forwardedProps,
        context: body['context'],
      }),
    },
  };
}

function resumed(entry: JsonObject): PostedAnswer {
  return {
    id: required(entry, 'interruptId'),
    content: entry['payload'],
    ...(entry['status'] === 'cancelled' && { action: 'cancel' as const }),
  };
}

function agUiParts(content: unknown): Part[] {
  if (typeof content === 'string') return [{ text: content }];
  return asObjects(content).flatMap((part): Part[] => {
    if (part['type'] === 'text') return [{ text: string(part['text']) ?? '' }];
    const source = isObject(part['source']) ? part['source'] : part;
    const mediaType = string(source['mimeType']);
    const filename = string(part['filename']);
    const bytes = source['type'] === 'data' ? string(source['value']) : string(source['data']);
    if (bytes !== undefined) return [postedFilePart(asUrl(bytes, mediaType), mediaType, filename)];
    const url = source['type'] === 'url' ? string(source['value']) : string(source['url']);
    return url === undefined ? [] : [postedFilePart(url, mediaType, filename)];
  });
}

const asUrl = (base64: string, mediaType = 'application/octet-stream'): string =>
  `data:${mediaType};base64,${base64}`;

/**
 * Parses a user message as an agent CLI reads it with `--input-format stream-json`. Its session id
 * is the conversation; with the same `uuid`, a message that is posted again is the same turn. Tool
 * results in it, and `answers` beside it, answer open questions. Throws `invalid`.
 */
export function readStreamJsonPost(body: JsonObject): PostedTurn {
  const { type, message, session_id, uuid, answers, parent_tool_use_id: _, ...metadata } = body;
  if (type !== 'user')
    throw new DuolaneError(
      'invalid',
      'invalid body: expected one stream-json message of type user',
    );
  const context = string(session_id);
  const id = string(uuid);
  const content = asObject(message)['content'];
  const blocks =
    typeof content === 'string' ? [{ type: 'text', text: content }] : asObjects(content);
  return {
    context,
    messageId: id === undefined ? undefined : `${context ?? ''}/${id}`,
    parts: blocks.flatMap(blockPart),
    given: [...asObjects(answers).map(givenAnswer), ...blocks.flatMap(blockAnswer)],
    metadata,
  };
}

const ACTIONS = ['accept', 'decline', 'cancel'] as const;

function givenAnswer(answer: JsonObject): PostedAnswer {
  const action = ACTIONS.find((each) => each === answer['action']);
  return { id: required(answer, 'id'), content: answer['content'], ...(action && { action }) };
}

const blockAnswer = (block: JsonObject): PostedAnswer[] =>
  block['type'] === 'tool_result'
    ? [
        {
          id: required(block, 'tool_use_id'),
          content: block['content'],
          ...(block['is_error'] === true && { action: 'decline' as const }),
        },
      ]
    : [];

function blockPart(block: JsonObject): Part[] {
  if (block['type'] === 'text') return [{ text: string(block['text']) ?? '' }];
  const source = asObject(block['source']);
  const mediaType = string(source['media_type']);
  if (source['type'] === 'base64')
    return [postedFilePart(asUrl(required(source, 'data'), mediaType), mediaType)];
  return source['type'] === 'url' ? [postedFilePart(required(source, 'url'), mediaType)] : [];
}
