import { checkTool } from '../../registry/check-tool.ts';
import { malformed } from '../../../errors.ts';
import { asObject, asString, type JsonObject } from '../../../json.ts';
import type { Items, ListOptions } from '../../../stream/types.ts';
import { callOrFollow, type CallToEndOptions } from '../../sources/call-to-end.ts';
import { declaresTasks } from '../../sources/task-codec.ts';
import type {
  CallOptions,
  SourceTasks,
  Tool,
  ToolCall,
  ToolEvent,
  ToolSource,
} from '../../types.ts';
import { clientTasks } from './client-tasks.ts';
import { listenerOf } from './change-listener.ts';
import type { McpClient } from './mcp-client.ts';
import { PendingCall } from './pending-call.ts';
import { PageWalk } from './page-walk.ts';
import { requestWithInput } from './request-with-input.ts';

/** The server of a connection as a ToolSource, with the capabilities of its `initialize` result. */
export function clientSource(
  client: McpClient,
  initialized: JsonObject,
): ToolSource & AsyncDisposable {
  const { serverInfo, instructions } = initialized;
  const { name, version } = asObject(serverInfo);
  const can = asObject(initialized['capabilities']);
  const tasks = declaresTasks(can) ? clientTasks(client) : undefined;
  const list =
    <T extends JsonObject>(method: string, key: string, check?: (item: T) => void) =>
    (options?: ListOptions): Items<T> =>
      new PageWalk<T>(
        (cursor, signal) =>
          client.request(
            method,
            cursor === undefined ? undefined : { cursor },
            signal && { signal },
          ),
        key,
        options,
        check,
      );
  return {
    info: {
      name: asString(name, 'unnamed'),
      version: asString(version, '0'),
      ...(typeof instructions === 'string' && { instructions }),
    },
    listTools: can['tools'] ? list<Tool>('tools/list', 'tools', checkTool) : () => none(),
    callTool: (call, options) => callTool(client, tasks, call, options),
    ...(tasks && { tasks }),
    listen: listenerOf(client, can),
    ...(can['resources'] !== undefined && {
      listResources: list('resources/list', 'resources'),
      listResourceTemplates: list('resources/templates/list', 'resourceTemplates'),
      async *readResource(uri, options) {
        const { contents } = await requestWithInput(client, 'resources/read', { uri }, options);
        if (!Array.isArray(contents))
          throw malformed(`the server sent resource "${uri}" without contents: expected an array`);
        yield* contents as JsonObject[];
      },
    }),
    ...(can['prompts'] !== undefined && {
      listPrompts: list('prompts/list', 'prompts'),
      getPrompt: (prompt, args, options) =>
        requestWithInput(client, 'prompts/get', { name: prompt, arguments: args }, options),
    }),
    ...(can['completions'] !== undefined && {
      complete: (request, options) => client.request('completion/complete', request, options),
    }),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

async function* none<T>(): AsyncGenerator<T, void, undefined> {}

/** Without tasks, a call is what one request makes of it; the rest would only cost time. */
function callTool(
  client: McpClient,
  tasks: SourceTasks | undefined,
  call: ToolCall,
  options: CallOptions = {},
): AsyncIterable<ToolEvent> {
  if (!tasks) return PendingCall.read(client, call, options);
  const once = (made: ToolCall, calling: CallOptions = {}): AsyncIterable<ToolEvent> =>
    PendingCall.read(client, made, calling, calling.task === true);
  const answer: CallToEndOptions['answer'] = (...asked) => client.answer(...asked);
  const source = { callTool: once, tasks };
  return callOrFollow(source, call, { ...options, ...(client.canAnswer && { answer }) });
}
