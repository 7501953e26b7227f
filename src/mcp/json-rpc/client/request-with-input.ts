import { unsupported } from '../../../errors.ts';
import type { JsonObject } from '../../../json.ts';
import { onAbort } from '../../../stream/abort.ts';
import type { AskOptions } from '../../types.ts';
import type { McpClient } from './mcp-client.ts';
import { bare } from '../protocol-versions.ts';
import { keyOf } from '../../sources/input-codec.ts';
import { ServerQuestions } from './server-questions.ts';
import { askedIn, inRounds } from './input-rounds.ts';

/**
 * Sends a request with one result. Questions of the server go to `onRequest` or to `ask`; an error
 * of `ask` ends the request.
 */
export async function requestWithInput(
  client: McpClient,
  method: string,
  params: JsonObject,
  { ask, signal, caller }: AskOptions = {},
): Promise<JsonObject> {
  const scope = new AbortController();
  const unlisten = onAbort(signal, (reason) => scope.abort(reason));
  const named = client.callers.enter(caller);
  const asked = Object.keys(named).length > 0 ? { ...params, _meta: named } : params;
  let id = client.requests.nextId;
  const questions = new ServerQuestions('', (request) => {
    ask?.({ ...request, id: keyOf('', request) }, { signal: scope.signal }).then(
      (answer) => questions.give([{ ...answer, id: request.id }]),
      (error: unknown) => scope.abort(error),
    );
  });
  try {
    const result = await inRounds(client, method, asked, {
      signal: scope.signal,
      ...(ask && {
        ask,
        begin: () => {
          id = client.requests.nextId;
          client.askers.set(id, questions.answer);
        },
        onSettled: () => client.askers.delete(id),
      }),
    });
    if (!askedIn(result)) return client.envelope ? bare(result) : result;
  } finally {
    client.askers.delete(id); // a request that could not be sent is never settled
    unlisten();
  }
  throw unsupported(`${method} needs an answer to a question of the server; set onRequest or ask`);
}
