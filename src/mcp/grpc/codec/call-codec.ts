import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type { Answer, InputRequest } from '../../../ask.ts';
import { invalid } from '../../../errors.ts';
import type { ToolCall, ToolEvent } from '../../types.ts';
import { fromCallResult, toCallResult } from './content-codec.ts';
import {
  type CallToolEvent,
  CallToolEventSchema,
  type CallToolRequest,
  CallToolRequestSchema,
  type InputAnswer,
  type InputAnswerSchema,
  type InputRequired,
  type InputRequiredSchema,
} from '../gen/mcp/stream/v1/mcp_pb.ts';
import { member, parse, parseObject, jsonText, toText } from './json-text.ts';

export function toCallRequest({
  id,
  name,
  args,
  meta,
  answers = [],
  state,
}: ToolCall): CallToolRequest {
  return create(CallToolRequestSchema, {
    id,
    name,
    argumentsJson: toText(args, 'the arguments'),
    answers: answers.map(toInputAnswer),
    ...member('metaJson', jsonText(meta)),
    ...member('state', state),
  });
}

export function fromCallRequest(request: CallToolRequest): ToolCall {
  const { id, name, argumentsJson, metaJson, answers, state } = request;
  return {
    id,
    name,
    args: argumentsJson === '' ? {} : parseObject(argumentsJson, 'arguments_json'),
    ...(metaJson !== undefined && { meta: parseObject(metaJson, 'meta_json') }),
    ...(answers.length > 0 && { answers: answers.map(fromInputAnswer) }),
    ...(state !== undefined && { state }),
  };
}

export function toCallEvent(event: ToolEvent): CallToolEvent {
  switch (event.type) {
    case 'progress': {
      const { type: _, ...progress } = event;
      return create(CallToolEventSchema, { progress });
    }
    case 'partial': {
      const { index, content, final } = event;
      const partial = {
        index,
        contentJson: jsonText(content) ?? 'null',
        ...member('final', final),
      };
      return create(CallToolEventSchema, { partial });
    }
    case 'log': {
      const { level, data, logger } = event;
      const log = { level, ...member('dataJson', jsonText(data)), ...member('logger', logger) };
      return create(CallToolEventSchema, { log });
    }
    case 'input':
      return create(CallToolEventSchema, {
        inputRequired: toInputRequired(event.requests, event.state),
      });
    case 'result':
      return create(CallToolEventSchema, { result: toCallResult(event.result) });
  }
}

/** Decodes an event; `undefined` for a kind that this version does not know. */
export function fromCallEvent(event: CallToolEvent): ToolEvent | undefined {
  const { progress, partial, log, inputRequired, result } = event;
  if (progress) {
    const { total, message } = progress;
    return {
      type: 'progress',
      progress: progress.progress,
      ...member('total', total),
      ...member('message', message),
    };
  }
  if (partial) {
    const { index, contentJson, final } = partial;
    const content = parse(contentJson, 'Partial.content_json');
    return { type: 'partial', index, content, ...member('final', final) };
  }
  if (log) {
    const { level, dataJson, logger } = log;
    const data = dataJson === undefined ? undefined : parse(dataJson, 'Log.data_json');
    return { type: 'log', level, data, ...member('logger', logger) };
  }
  if (inputRequired) return { type: 'input', ...fromInputRequired(inputRequired) };
  return result && { type: 'result', result: fromCallResult(result) };
}

export const toInputRequired = (
  requests: readonly InputRequest[],
  state?: string,
): MessageInitShape<typeof InputRequiredSchema> => ({
  requests: requests.map(({ id, kind, message, callId, schema, data }) => ({
    id,
    kind,
    ...member('message', message),
    ...member('callId', callId),
    ...member('schemaJson', jsonText(schema)),
    ...member('dataJson', jsonText(data)),
  })),
  ...member('state', state),
});

const KINDS = ['approval', 'question', 'auth'] as const;

export function fromInputRequired({ requests, state }: InputRequired): {
  readonly requests: readonly InputRequest[];
  readonly state?: string;
} {
  return {
    requests: requests.map(({ id, kind, message, callId, schemaJson, dataJson }) => ({
      id,
      kind: KINDS.find((known) => known === kind) ?? 'question',
      ...member('message', message),
      ...member('callId', callId),
      ...(schemaJson !== undefined && { schema: parseObject(schemaJson, 'schema_json') }),
      ...(dataJson !== undefined && { data: parse(dataJson, 'data_json') }),
    })),
    ...member('state', state),
  };
}

export const toInputAnswer = ({
  id,
  action,
  content,
}: Answer): MessageInitShape<typeof InputAnswerSchema> => ({
  id,
  action,
  ...member('contentJson', jsonText(content)),
});

const ACTIONS = ['accept', 'decline', 'cancel'] as const;

export function fromInputAnswer({ id, action, contentJson }: InputAnswer): Answer {
  const known = ACTIONS.find((one) => one === action);
  if (!known)
    throw invalid(
      `invalid action "${action}" in the answer to "${id}": expected accept, decline or cancel`,
    );
  return {
    id,
    action: known,
    ...(contentJson !== undefined && { content: parse(contentJson, 'content_json') }),
  };
}
