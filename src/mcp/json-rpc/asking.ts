import { createHash } from 'node:crypto';
import type { Answer, Ask, InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { fromRpcError } from '../../wire/rpc-errors.ts';
import { ERA_ERRORS } from './era.ts';
import { CAPABILITY, keyOf, toAnswer, toWire } from './input.ts';
import type { RequestContext } from './methods.ts';

/** How long a client may take to come back with what a request asked for. */
const STATE_MS = 24 * 60 * 60 * 1000;

/** Times that one request may ask its client; a stateless client counts for itself. */
export const MAX_ROUNDS = 8;

/** What a stateless client carries from one round of a request to the next. */
export interface Round {
  /** Which request it belongs to. */
  readonly of: string;
  /** The call's id, or empty: it begins the ids of its questions. */
  readonly id: string;
  readonly answers: readonly Answer[];
  readonly state?: string | undefined;
}

export function digest(method: string, { name, arguments: args, uri }: JsonObject): string {
  const salient = JSON.stringify([method, name, args ?? {}, uri]);
  return createHash('sha256').update(salient).digest('base64url');
}

/** The rounds so far, from what the client gives back; `id` is for a first round. */
export function readRound(
  method: string,
  params: JsonObject,
  id: string,
  { seal }: RequestContext,
): Round {
  const { inputResponses, requestState } = params;
  const of = digest(method, params);
  const known = typeof requestState === 'string' ? seal.open('call', requestState, 'state') : {};
  if (typeof requestState === 'string' && known['of'] !== of)
    throw new DuolaneError('invalid', 'Unknown state: it belongs to another request; start again');
  if (typeof known['until'] === 'number' && known['until'] < Date.now())
    throw new DuolaneError('invalid', 'The state is too old; start again');
  const own = typeof known['id'] === 'string' ? known['id'] : id;
  const given = isObject(inputResponses) ? Object.entries(inputResponses) : [];
  return {
    of,
    id: own,
    answers: [
      ...(Array.isArray(known['answers']) ? (known['answers'] as Answer[]) : []),
      ...given.map(([key, response]) => toAnswer(own === '' ? key : `${own}/${key}`, response)),
    ],
    ...(typeof known['state'] === 'string' && { state: known['state'] }),
  };
}

/** The result that sends a stateless client for the answers. */
export function inputRequired(
  { of, id, answers, state }: Round,
  fresh: readonly InputRequest[],
  { client, seal }: RequestContext,
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
    requestState: seal.close('call', { of, id, until, answers, state }),
  };
}

const missing = (capabilities: readonly string[]): DuolaneError =>
  fromRpcError({
    code: ERA_ERRORS.missingCapability,
    message: `The request needs a client with ${capabilities.join(' and ')}`,
    data: { requiredCapabilities: Object.fromEntries(capabilities.map((name) => [name, {}])) },
  });

/** Asks whoever called, if that client can be asked all of this. */
export function askClient(
  fresh: readonly InputRequest[],
  { client, request }: RequestContext,
): Ask | undefined {
  const able = fresh.every((each) =>
    isObject(client.capabilities[CAPABILITY[toWire(each).method]!]),
  );
  if (!able) return undefined;
  return async (asked, options) => {
    const { method, params } = toWire(asked);
    return toAnswer(asked.id, await request(method, params, options));
  };
}

/** A request whose source may ask before it answers: it runs again with what was answered. */
export async function serveAsking(
  method: string,
  params: JsonObject,
  context: RequestContext,
  run: (ask: Ask) => Promise<JsonObject>,
): Promise<JsonObject> {
  const { client } = context;
  const round = readRound(method, params, '', context);
  const answers = [...round.answers];
  for (let rounds = 1; ; rounds += 1) {
    const asked = new Map<string, InputRequest>();
    try {
      return await run(async (request) => {
        const known = answers.find(({ id }) => id === request.id);
        if (known) return known;
        asked.set(request.id, request);
        throw new DuolaneError('suspended', `${method} waits for an answer to ${request.id}`);
      });
    } catch (error) {
      const suspended = error instanceof DuolaneError && error.code === 'suspended';
      if (!suspended || asked.size === 0 || rounds > MAX_ROUNDS) throw error;
    }
    const fresh = [...asked.values()];
    if (!context.ask && client.stateless)
      return inputRequired({ ...round, answers }, fresh, context);
    const ask = context.ask ?? askClient(fresh, context);
    if (!ask)
      throw new DuolaneError(
        'unsupported',
        `${method} needs an answer, and nobody can be asked here`,
      );
    answers.push(
      ...(await Promise.all(
        fresh.map((request) => ask(request, { signal: context.cancellation.signal })),
      )),
    );
  }
}
