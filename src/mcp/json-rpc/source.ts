import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
import type { Items, ListOptions } from '../../stream/types.ts';
import { atDeadline } from '../tool-events.ts';
import type {
  AskOptions,
  CallOptions,
  Tool,
  ToolCall,
  ToolEvent,
  ToolResult,
  ToolSource,
} from '../types.ts';
import { CallEvents } from './call-events.ts';
import { CALL_ID } from './call.ts';
import type { Client } from './client.ts';
import { bare, META } from './era.ts';
import { askedIn, inRounds, toInput, withAnswers } from './rounds.ts';
import { Subscription } from './subscribe.ts';
import { PageWalk } from './walk.ts';

/** The server that a client is connected to, with what its `initialize` answer says it has. */
export function sourceOf(client: Client, initialized: JsonObject): ToolSource & AsyncDisposable {
  const { serverInfo, instructions } = initialized;
  const { name, version } = isObject(serverInfo) ? serverInfo : {};
  const can = isObject(initialized['capabilities']) ? initialized['capabilities'] : {};
  const list =
    <T extends JsonObject>(method: string, key: string) =>
    (options?: ListOptions): Items<T> =>
      new PageWalk<T>(
        (cursor, signal) =>
          client.request(method, cursor === undefined ? undefined : { cursor }, {
            ...(signal && { signal }),
          }),
        key,
        options,
      );
  const subscription = client.envelope && new Subscription(client);
  return {
    info: {
      name: typeof name === 'string' ? name : 'unnamed',
      version: typeof version === 'string' ? version : '0',
      ...(typeof instructions === 'string' && { instructions }),
    },
    listTools: can['tools'] ? list<Tool>('tools/list', 'tools') : () => none(),
    callTool: (call, options) => callTool(client, call, options),
    listen: (options) => (subscription ?? client.changes).listen(options),
    ...(can['resources'] !== undefined && {
      listResources: list('resources/list', 'resources'),
      listResourceTemplates: list('resources/templates/list', 'resourceTemplates'),
      async *readResource(uri, options) {
        const { contents } = await whole(client, 'resources/read', { uri }, options);
        if (!Array.isArray(contents))
          throw new DuolaneError('malformed', `the server sent ${uri} without contents`);
        yield* contents as JsonObject[];
      },
    }),
    ...(can['prompts'] !== undefined && {
      listPrompts: list('prompts/list', 'prompts'),
      getPrompt: (prompt, args, options) =>
        whole(client, 'prompts/get', { name: prompt, arguments: args }, options),
    }),
    ...(can['completions'] !== undefined && {
      complete: (request, options) => client.request('completion/complete', request, options),
    }),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

async function* none<T>(): AsyncGenerator<T, void, undefined> {}

/** A result that must not be a question: only a tool call has somebody to put it to. */
async function whole(
  client: Client,
  method: string,
  params: JsonObject,
  options: AskOptions = {},
): Promise<JsonObject> {
  const result = await inRounds(client, method, params, options);
  if (askedIn(result))
    throw new DuolaneError(
      'unsupported',
      `the server asks for something before it answers ${method}: dial it with \`onRequest\``,
    );
  return client.envelope ? bare(result) : result;
}

async function* callTool(
  client: Client,
  { id, name, args, meta, answers = [], state }: ToolCall,
  { signal, deadline }: CallOptions = {},
): AsyncGenerator<ToolEvent, void, undefined> {
  signal?.throwIfAborted();
  const scope = new AbortController();
  const unlisten = onAbort(signal, (reason) => scope.abort(reason));
  const timer =
    deadline === undefined
      ? undefined
      : atDeadline(deadline, name, (reason) => scope.abort(reason));
  const events = new CallEvents();
  const progressToken = client.requests.nextId;
  const params = {
    name,
    arguments: args,
    ...withAnswers(id, answers, state),
    _meta: {
      [CALL_ID]: id,
      ...meta,
      progressToken,
      // Whoever reads the events decides what to drop; in the other era all levels come anyway.
      ...(client.envelope && { [META.logLevel]: 'debug' }),
    },
  };
  let over = false;
  const answered = inRounds(client, 'tools/call', params, {
    signal: scope.signal,
    begin: () => client.calls.set(progressToken, events),
    // At once: progress that comes after the answer belongs to nobody.
    onSettled: () => client.calls.delete(progressToken),
  })
    .then((result) => events.finish(lastOf(client, id, result)))
    .catch((error: unknown) => events.fail(error))
    .then(() => {
      over = true;
    });
  try {
    yield* events;
  } finally {
    unlisten();
    clearTimeout(timer);
    if (!over) scope.abort(new DuolaneError('canceled', 'the caller has left'));
    await answered;
  }
}

function lastOf(client: Client, callId: string, result: JsonObject): ToolEvent {
  const asked = askedIn(result);
  if (asked) return { type: 'input', ...toInput(callId, asked) };
  return { type: 'result', result: toResult(client.envelope ? bare(result) : result) };
}

const toResult = (result: JsonObject): ToolResult =>
  Array.isArray(result['content']) ? (result as ToolResult) : { ...result, content: [] };
