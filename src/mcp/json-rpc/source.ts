import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import type { Items, ListOptions } from '../../stream/types.ts';
import { atDeadline } from '../run.ts';
import type { CallOptions, Tool, ToolCall, ToolEvent, ToolResult, ToolSource } from '../types.ts';
import { CallEvents } from './call-events.ts';
import { CALL_ID } from './call.ts';
import type { Client } from './client.ts';
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
          client.requests.send(method, cursor === undefined ? undefined : { cursor }, {
            ...(signal && { signal }),
          }),
        key,
        options,
      );
  return {
    info: {
      name: typeof name === 'string' ? name : 'unnamed',
      version: typeof version === 'string' ? version : '0',
      ...(typeof instructions === 'string' && { instructions }),
    },
    listTools: can['tools'] ? list<Tool>('tools/list', 'tools') : () => none(),
    callTool: (call, options) => callTool(client, call, options),
    listen: (options) => client.changes.listen(options),
    ...(can['resources'] !== undefined && {
      listResources: list('resources/list', 'resources'),
      listResourceTemplates: list('resources/templates/list', 'resourceTemplates'),
      async *readResource(uri, options) {
        const { contents } = await client.requests.send('resources/read', { uri }, options);
        if (!Array.isArray(contents))
          throw new DuolaneError('malformed', `the server sent ${uri} without contents`);
        yield* contents as JsonObject[];
      },
    }),
    ...(can['prompts'] !== undefined && {
      listPrompts: list('prompts/list', 'prompts'),
      getPrompt: (prompt, args, options) =>
        client.requests.send('prompts/get', { name: prompt, arguments: args }, options),
    }),
    ...(can['completions'] !== undefined && {
      complete: (request, options) => client.requests.send('completion/complete', request, options),
    }),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

async function* none<T>(): AsyncGenerator<T, void, undefined> {}

async function* callTool(
  client: Client,
  { id, name, args, meta }: ToolCall,
  { signal, deadline }: CallOptions = {},
): AsyncGenerator<ToolEvent, void, undefined> {
  signal?.throwIfAborted();
  const scope = new AbortController();
  const onAbort = (): void => scope.abort(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  const timer =
    deadline === undefined
      ? undefined
      : atDeadline(deadline, name, (reason) => scope.abort(reason));
  const events = new CallEvents();
  const progressToken = client.requests.nextId;
  client.calls.set(progressToken, events);
  const params = { name, arguments: args, _meta: { [CALL_ID]: id, ...meta, progressToken } };
  let over = false;
  const answered = client.requests
    .send('tools/call', params, {
      signal: scope.signal,
      // At once: progress that comes after the answer belongs to nobody.
      onSettled: () => client.calls.delete(progressToken),
    })
    .then((result) => events.finish({ type: 'result', result: toResult(result) }))
    .catch((error: unknown) => events.fail(error))
    .then(() => {
      over = true;
    });
  try {
    yield* events;
  } finally {
    signal?.removeEventListener('abort', onAbort);
    clearTimeout(timer);
    if (!over) scope.abort(new DuolaneError('canceled', 'the caller has left'));
    await answered;
  }
}

const toResult = (result: JsonObject): ToolResult =>
  Array.isArray(result['content']) ? (result as ToolResult) : { ...result, content: [] };
