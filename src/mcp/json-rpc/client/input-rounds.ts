import type { Answer, Ask, InputRequest } from '../../../ask.ts';
import { DuolaneError, malformed, invalid } from '../../../errors.ts';
import { asObject, isObject, type JsonObject, tryParse } from '../../../json.ts';
import type { McpClient } from './mcp-client.ts';
import { fromWire, keyOf, toResponse, type WireInput } from '../../sources/input-codec.ts';
import { type InputAttempt, askInRounds, tooManyRounds } from '../../sources/ask-rounds.ts';
import type { RpcRequestOptions } from '../pending-requests.ts';

/** How many questions a server may ask in one response: each takes time of a person or a model. */
const MAX_QUESTIONS = 100;

/** The questions of a server, and the state to return with the answers. */
export interface InputRequired {
  readonly inputRequests: JsonObject;
  readonly requestState: string | undefined;
}

/**
 * Returns the questions in a result, if it is `input_required`. Throws `malformed` for an unknown
 * result type, and `too_large` for too many questions.
 */
export function askedIn(result: JsonObject, mayBeTask = false): InputRequired | undefined {
  const { resultType, inputRequests = {}, requestState } = result;
  if (resultType === undefined || resultType === 'complete') return undefined;
  if (mayBeTask && resultType === 'task') return undefined;
  if (resultType !== 'input_required' || !isObject(inputRequests))
    throw malformed(
      `the server sent a result of type ${JSON.stringify(resultType)}: expected "complete" or "input_required"`,
    );
  const count = Object.keys(inputRequests).length;
  if (count > MAX_QUESTIONS)
    throw new DuolaneError(
      'too_large',
      `the server exceeds the limit of ${MAX_QUESTIONS} questions in one response: ${count} questions`,
    );
  return {
    inputRequests,
    requestState: typeof requestState === 'string' ? requestState : undefined,
  };
}

export interface RoundOptions extends RpcRequestOptions {
  /** Whether the result may be a task. */
  readonly mayBeTask?: boolean;
  /** Called before each round. */
  readonly begin?: () => void;
  /** Answers the questions if the program has no `onRequest`. */
  readonly ask?: Ask;
}

/**
 * Sends a request in as many rounds as the server needs, while `onRequest` or `ask` answers its
 * questions. Without either, the result may still be `input_required`.
 */
export async function inRounds(
  client: McpClient,
  method: string,
  params: JsonObject,
  { begin, ask, mayBeTask, ...options }: RoundOptions = {},
): Promise<JsonObject> {
  const answering = options.signal ? { signal: options.signal } : {};
  const respond = async (key: string, request: unknown): Promise<[string, JsonObject]> => {
    const { callId: _, ...question } = fromWire('', key, request);
    const { method: wanted, params: of } = question.data as WireInput;
    if (client.canAnswer || !ask) return [key, await client.answer(wanted, of, answering)];
    return [key, toResponse(await ask({ ...question, id: key }, answering), wanted)];
  };
  const attempt = async (more?: JsonObject): Promise<InputAttempt<JsonObject, InputRequired>> => {
    begin?.();
    const result = await client.request(method, more ? { ...params, ...more } : params, options);
    const questions = askedIn(result, mayBeTask);
    return questions && (client.canAnswer || ask) ? { questions } : { result };
  };
  const again = async ({ inputRequests, requestState }: InputRequired) => {
    const responses = Object.entries(inputRequests).map((entry) => respond(...entry));
    return attempt(retry(requestState, Object.fromEntries(await Promise.all(responses))));
  };
  const first = await attempt();
  // Most requests ask nothing: they return here, without the cost of the rounds.
  if ('result' in first) return first.result;
  return askInRounds(first, again, () => tooManyRounds(method));
}

const retry = (requestState: string | undefined, inputResponses: JsonObject): JsonObject => ({
  inputResponses,
  ...(requestState !== undefined && { requestState }),
});

/**
 * Converts the questions to an `input` event. Its state is what `withAnswers` needs to continue.
 */
export function toInput(
  callId: string,
  { inputRequests, requestState }: InputRequired,
): { readonly requests: readonly InputRequest[]; readonly state: string } {
  const entries = Object.entries(inputRequests);
  const requests = entries.map(([key, value]) => fromWire(callId, key, value));
  const methods = Object.fromEntries(
    requests.map((request) => [
      keyOf(callId, request),
      (request.data as { method: string }).method,
    ]),
  );
  return { requests, state: JSON.stringify({ requestState, methods }) };
}

/** Returns the members that repeat a call with the answers to its questions. */
export function withAnswers(
  callId: string,
  answers: readonly Answer[],
  state: string | undefined,
): JsonObject {
  if (state === undefined) return {};
  const { requestState, methods } = readState(state);
  const given = answers
    .map((answer) => [keyOf(callId, answer), answer] as const)
    .filter(([key]) => methods[key] !== undefined)
    .map(([key, answer]) => [key, toResponse(answer, String(methods[key]))] as const);
  return retry(
    typeof requestState === 'string' ? requestState : undefined,
    Object.fromEntries(given),
  );
}

function readState(state: string): JsonObject & { readonly methods: JsonObject } {
  const value = asObject(tryParse(state));
  const { methods } = value;
  if (!isObject(methods))
    throw invalid('invalid state of the call: expected the state of its input event');
  return { ...value, methods };
}
