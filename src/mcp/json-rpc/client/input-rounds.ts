import type { Answer, Ask, InputRequest } from '../../../ask.ts';
import { DuolaneError } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';
import type { McpClient } from './mcp-client.ts';
import { fromWire, keyOf, toResponse, type WireInput } from '../input-codec.ts';
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
export function askedIn(result: JsonObject): InputRequired | undefined {
  const { resultType, inputRequests = {}, requestState } = result;
  if (resultType === undefined || resultType === 'complete') return undefined;
  if (resultType !== 'input_required' || !isObject(inputRequests))
    throw new DuolaneError(
      'malformed',
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
  { begin, ask, ...options }: RoundOptions = {},
): Promise<JsonObject> {
  const attempt = (more?: JsonObject): Promise<JsonObject> => {
    begin?.();
    return client.request(method, more ? { ...params, ...more } : params, options);
  };
  const result = await attempt();
  const asked = askedIn(result);
  if (!asked || !(client.canAnswer || ask)) return result;
  const answering = options.signal ? { signal: options.signal } : {};
  const again = async ({
    inputRequests,
    requestState,
  }: InputRequired): Promise<InputAttempt<JsonObject, InputRequired>> => {
    const responses = Object.entries(inputRequests).map(async ([key, request]) => {
      const { callId: _, ...question } = fromWire('', key, request);
      const { method: wanted, params: of } = question.data as WireInput;
      const response =
        client.canAnswer || !ask
          ? await client.answer(wanted, of, answering)
          : toResponse(await ask({ ...question, id: key }, answering), wanted);
      return [key, response] as const;
    });
    const next = await attempt(
      retry(requestState, Object.fromEntries(await Promise.all(responses))),
    );
    const questions = askedIn(next);
    return questions ? { questions } : { result: next };
  };
  return askInRounds({ questions: asked }, again, () => tooManyRounds(method));
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
  try {
    const value: unknown = JSON.parse(state);
    if (isObject(value) && isObject(value['methods']))
      return { ...value, methods: value['methods'] };
  } catch {
    // Not our state, as below.
  }
  throw new DuolaneError(
    'invalid',
    'invalid state of the call: expected the state of its input event',
  );
}
