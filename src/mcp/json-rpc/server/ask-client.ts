import { createHash } from 'node:crypto';
import type { Answer, Ask, InputRequest } from '../../../ask.ts';
import { DuolaneError, invalid, unsupported } from '../../../errors.ts';
import { asArray, asObject, asString, isObject, type JsonObject } from '../../../json.ts';
import { fromRpcError } from '../../../wire/json-rpc-errors.ts';
import { VERSION_ERRORS } from '../protocol-versions.ts';
import { CAPABILITY, keyOf, toAnswer, toWire } from '../../sources/input-codec.ts';
import {
  type InputAttempt,
  askInRounds,
  CollectingAsk,
  MAX_INPUT_ROUNDS,
} from '../../sources/ask-rounds.ts';
import type { RequestContext } from './methods.ts';

/** How long a client may take to return with the answers to a request. */
const STATE_MS = 24 * 60 * 60 * 1000;

/** What a stateless client carries from one round of a request to the next. */
export interface Round {
  /** A digest of the request, so that its state cannot be used for another. */
  readonly of: string;
  /** The id of the call, which prefixes the ids of its questions; empty for other requests. */
  readonly id: string;
  readonly answers: readonly Answer[];
  readonly state?: string | undefined;
}

/** The kind of token. The state of one owner is invalid for another. */
const kindFor = (owner: string | undefined): string =>
  owner === undefined ? 'call' : `call of ${owner}`;

/** A digest of what identifies a request. */
export function digest(method: string, { name, arguments: args, uri }: JsonObject): string {
  const salient = JSON.stringify([method, name, args ?? {}, uri]);
  return createHash('sha256').update(salient).digest('base64url');
}

/**
 * Reads the earlier rounds from what the client returned; `id` is used for a first round. Throws
 * `invalid` for a state of another request or owner, or an expired one.
 */
export function readRound(
  method: string,
  params: JsonObject,
  id: string,
  { signer, owner }: RequestContext,
): Round {
  const { inputResponses, requestState } = params;
  const of = digest(method, params);
  const known =
    typeof requestState === 'string' ? signer.verify(kindFor(owner), requestState, 'state') : {};
  if (typeof requestState === 'string' && known['of'] !== of)
    throw invalid('invalid requestState: it belongs to another request; start again without it');
  if (typeof known['until'] === 'number' && known['until'] < Date.now())
    throw invalid('the requestState has expired; start again without it');
  const own = asString(known['id'], id);
  // A client may answer only the questions that it got. Otherwise it could answer a question in
  // place of the person that `ask` asks, and approve its own call.
  const asked = new Set(asArray(known['asked']));
  const given = Object.entries(asObject(inputResponses)).filter(([key]) => asked.has(key));
  return {
    of,
    id: own,
    answers: [
      ...(asArray(known['answers']) as Answer[]),
      ...given.map(([key, response]) => toAnswer(own === '' ? key : `${own}/${key}`, response)),
    ],
    ...(typeof known['state'] === 'string' && { state: known['state'] }),
  };
}

/** The result that asks a stateless client for answers. */
function inputRequired(
  { of, id, answers, state }: Round,
  fresh: readonly InputRequest[],
  { client, signer, owner }: RequestContext,
): JsonObject {
  const asked = fresh.map((request) => [keyOf(id, request), toWire(request)] as const);
  const lacking = asked
    .map(([, { method }]) => CAPABILITY[method]!)
    .filter((capability) => !isObject(client.capabilities[capability]));
  if (lacking.length > 0) throw missing(lacking);
  const until = Date.now() + STATE_MS;
  return {
    resultType: 'input_required',
    inputRequests: Object.fromEntries(asked),
    requestState: signer.sign(kindFor(owner), {
      of,
      id,
      until,
      answers,
      asked: asked.map(([key]) => key),
      state,
    }),
  };
}

const missing = (capabilities: readonly string[]): DuolaneError =>
  fromRpcError({
    code: VERSION_ERRORS.missingCapability,
    message: `the request needs a client with the capability ${capabilities.join(' and ')}`,
    data: { requiredCapabilities: Object.fromEntries(capabilities.map((name) => [name, {}])) },
  });

/** The outcome of a round: all answers so far, or the result that asks the client for them. */
export type Obtained =
  | { readonly answers: readonly Answer[] }
  | { readonly result: JsonObject }
  | undefined;

/**
 * Obtains the answers to questions of a source. `ask` asks a person. A question that only a program
 * can answer, such as sampling, goes to the client if it has the capability, and so does every
 * question without `ask`. Returns `undefined` if nothing can answer them.
 */
export async function obtainAnswers(
  round: Round,
  fresh: readonly InputRequest[],
  context: RequestContext,
): Promise<Obtained> {
  const { ask, client } = context;
  const can = (request: InputRequest): boolean =>
    isObject(client.capabilities[CAPABILITY[toWire(request).method]!]);
  const isOurs = (request: InputRequest): boolean =>
    ask !== undefined && (toWire(request).method === 'elicitation/create' || !can(request));
  const theirs = fresh.filter((request) => !isOurs(request));
  if (!client.stateless && !theirs.every(can)) return undefined;
  const { signal } = context.cancellation;
  const answered = await Promise.all([
    ...fresh.filter(isOurs).map((request) => ask!(request, { signal })),
    ...(client.stateless ? [] : theirs.map((request) => askClient(request, context))),
  ]);
  const answers = [...round.answers, ...answered];
  if (!client.stateless || theirs.length === 0) return { answers };
  return { result: inputRequired({ ...round, answers }, theirs, context) };
}

async function askClient(
  asked: InputRequest,
  { cancellation: { signal }, request }: RequestContext,
): Promise<Answer> {
  const { method, params } = toWire(asked);
  return toAnswer(asked.id, await request(method, params, { signal }));
}

/** Serves a request whose source may ask: it runs again with the answers. */
export async function serveWithQuestions(
  method: string,
  params: JsonObject,
  context: RequestContext,
  run: (ask: Ask) => Promise<JsonObject>,
): Promise<JsonObject> {
  let round = readRound(method, params, '', context);
  const attempt = async (): Promise<InputAttempt<JsonObject, readonly InputRequest[]>> => {
    const collecting = new CollectingAsk(round.answers);
    try {
      return { result: await run(collecting.ask) };
    } catch (error) {
      return { questions: collecting.questionsAfter(error) };
    }
  };
  const again = async (fresh: readonly InputRequest[]) => {
    const obtained = await obtainAnswers(round, fresh, context);
    if (!obtained)
      throw unsupported(
        `${method} needs an answer, but no one can be asked; set ask, or use a client with elicitation`,
      );
    if ('result' in obtained) return obtained;
    round = { ...round, answers: obtained.answers };
    return attempt();
  };
  const message = `${method} asked more than ${MAX_INPUT_ROUNDS} times`;
  return askInRounds(await attempt(), again, () => new DuolaneError('internal', message));
}
