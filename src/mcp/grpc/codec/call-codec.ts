import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type { Answer, InputRequest } from '../../../ask.ts';
import { invalid } from '../../../errors.ts';
import { omitUndefined } from '../../../json.ts';
import { toToolTask } from '../../sources/task-codec.ts';
import type { ToolCall, ToolEvent, ToolTask } from '../../types.ts';
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
import { parse, parseObject, jsonText, toText } from './json-text.ts';

export function toCallRequest(call: ToolCall): CallToolRequest {
  const { id, name, args, meta, answers = [], state } = call;
  const argumentsJson = toText(args, 'the arguments');
  const request = { id, name, argumentsJson, metaJson: jsonText(meta), state };
  return create(CallToolRequestSchema, {
    ...omitUndefined(request),
    answers: answers.map(toInputAnswer),
  });
}

export function fromCallRequest(request: CallToolRequest): ToolCall {
  const { id, name, argumentsJson, metaJson, answers, state } = request;
  return omitUndefined<ToolCall>({
    id,
    name,
    args: argumentsJson === '' ? {} : parseObject(argumentsJson, 'arguments_json'),
    meta: parseObject(metaJson, 'meta_json'),
    answers: answers.length > 0 ? answers.map(fromInputAnswer) : undefined,
    state,
  });
}

export function toCallEvent(event: ToolEvent): CallToolEvent {
  switch (event.type) {
    case 'progress': {
      const { type: _, ...progress } = event;
      return create(CallToolEventSchema, { progress });
    }
    case 'partial': {
      const { index, content, final } = event;
      const partial = omitUndefined({ index, contentJson: jsonText(content) ?? 'null', final });
      return create(CallToolEventSchema, { partial });
    }
    case 'log': {
      const { level, data, logger } = event;
      const log = omitUndefined({ level, dataJson: jsonText(data), logger });
      return create(CallToolEventSchema, { log });
    }
    case 'input':
      return create(CallToolEventSchema, {
        inputRequired: toInputRequired(event.requests, event.state),
      });
    case 'task':
      return create(CallToolEventSchema, { taskJson: toText(event.task, 'the task') });
    case 'result':
      return create(CallToolEventSchema, { result: toCallResult(event.result) });
  }
}

/** Decodes an event; `undefined` for a kind that this version does not know. */
export function fromCallEvent(event: CallToolEvent): ToolEvent | undefined {
  const { partial, log, inputRequired, result, taskJson } = event;
  if (event.progress) {
    const { progress, total, message } = event.progress;
    return omitUndefined<ToolEvent>({ type: 'progress', progress, total, message });
  }
  if (partial) {
    const { index, contentJson, final } = partial;
    const content = parse(contentJson, 'Partial.content_json');
    return omitUndefined<ToolEvent>({ type: 'partial', index, content, final });
  }
  if (log) {
    const { level, dataJson, logger } = log;
    const data = parse(dataJson, 'Log.data_json');
    return omitUndefined<ToolEvent>({ type: 'log', level, data, logger });
  }
  if (inputRequired) return { type: 'input', ...fromInputRequired(inputRequired) };
  if (taskJson !== undefined) return { type: 'task', task: taskFrom(taskJson) };
  return result && { type: 'result', result: fromCallResult(result) };
}

/** Decodes a task in the form of the extension. */
export const taskFrom = (json: string): ToolTask => toToolTask(parseObject(json, 'task_json'));

export const toInputRequired = (
  requests: readonly InputRequest[],
  state?: string,
): MessageInitShape<typeof InputRequiredSchema> =>
  omitUndefined({
    requests: requests.map(({ schema, data, ...request }) =>
      omitUndefined({ ...request, schemaJson: jsonText(schema), dataJson: jsonText(data) }),
    ),
    state,
  });

const KINDS = ['approval', 'question', 'auth'] as const;

interface AskedInput {
  readonly requests: readonly InputRequest[];
  readonly state?: string;
}

export const fromInputRequired = ({ requests, state }: InputRequired): AskedInput =>
  omitUndefined<AskedInput>({
    requests: requests.map(({ id, kind, message, callId, schemaJson, dataJson }) =>
      omitUndefined<InputRequest>({
        id,
        kind: KINDS.find((known) => known === kind) ?? 'question',
        message,
        callId,
        schema: parseObject(schemaJson, 'schema_json'),
        data: parse(dataJson, 'data_json'),
      }),
    ),
    state,
  });

export const toInputAnswer = ({
  id,
  action,
  content,
}: Answer): MessageInitShape<typeof InputAnswerSchema> =>
  omitUndefined({ id, action, contentJson: jsonText(content) });

const ACTIONS = ['accept', 'decline', 'cancel'] as const;

export function fromInputAnswer({ id, action, contentJson }: InputAnswer): Answer {
  const known = ACTIONS.find((one) => one === action);
  if (!known)
    throw invalid(
      `invalid action "${action}" in the answer to "${id}": expected accept, decline or cancel`,
    );
  return omitUndefined<Answer>({ id, action: known, content: parse(contentJson, 'content_json') });
}
