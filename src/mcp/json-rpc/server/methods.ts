import type { Ask } from '../../../ask.ts';
import { invalid } from '../../../errors.ts';
import { asObject, isObject, type JsonObject } from '../../../json.ts';
import type { Cancellation } from '../../../stream/cancellation.ts';
import { disposeOnce } from '../../../stream/dispose-once.ts';
import type { Items, ListOptions } from '../../../stream/types.ts';
import type { RpcId } from '../../../wire/json-rpc.ts';
import { CursorPages } from '../../sources/cursor-pages.ts';
import type { MessageEndpoint, ToolSource } from '../../types.ts';
import { serveWithQuestions } from './ask-client.ts';
import { serveCall } from './tools-call.ts';
import { PROTOCOL_VERSIONS } from '../protocol-versions.ts';
import type { TokenSigner } from '../../sources/signed-token.ts';
import { discoverResult, serveListen } from './stateless-requests.ts';
import type { ResourceWatch } from './resource-watch.ts';
import { type SessionTasks, taskMethods } from './task-methods.ts';
import { TASK_CAPABILITY } from '../../sources/task-codec.ts';

/** The limits of what a session keeps for its client, which may have many sessions. */
const MAX_CAPABILITIES_CHARS = 16_384;
const MAX_LEVEL_CHARS = 64;

/** What the client announced: for the connection, or for this request if it is stateless. */
export interface ClientState {
  readonly stateless: boolean;
  capabilities: JsonObject;
  /** The lowest level of log lines to send; `undefined` for none. */
  logLevel: string | undefined;
  /**
   * The single resources that the client has subscribed; a stateless client names them in
   * `subscriptions/listen`.
   */
  readonly watch: ResourceWatch | undefined;
  /** The tasks that a client of a session has started; a stateless client names them, too. */
  readonly tasks?: SessionTasks;
}

/** What a method handler may use besides its parameters; all of it belongs to one request. */
export interface RequestContext {
  readonly id: RpcId;
  readonly cancellation: Cancellation;
  readonly client: ClientState;
  readonly ask: Ask | undefined;
  readonly signer: TokenSigner;
  readonly owner: string | undefined;
  /** Identifies the caller to a source that others use, too. */
  readonly caller: string;
  /** Sends a notification; resolves when the reader of `outgoing` has taken it. */
  readonly notify: (method: string, params: JsonObject) => Promise<void>;
  readonly log: (entry: { readonly level: string; readonly data: unknown }) => Promise<void>;
  readonly request: MessageEndpoint['request'];
}

/** Handles one method: returns its result, or throws the error to send. */
export type MethodHandler = (params: JsonObject, context: RequestContext) => Promise<JsonObject>;

export interface Methods extends AsyncDisposable {
  readonly table: ReadonlyMap<string, MethodHandler>;
}

/**
 * Creates the handlers of the methods that a source supports. Each list keeps the lists that
 * clients have started.
 */
export function methodHandlers(source: ToolSource, pageSize: number, signer: TokenSigner): Methods {
  const table = new Map<string, MethodHandler>();
  const lists: Array<CursorPages<JsonObject>> = [];
  const list = (
    name: string,
    key: string,
    open: ((options: ListOptions) => Items<JsonObject>) | undefined,
  ): void => {
    if (!open) return;
    const pages = new CursorPages(open, { pageSize, signer, kind: name });
    lists.push(pages);
    table.set(name, async ({ cursor }, { cancellation: { signal } }) => {
      const { items, ...rest } = await pages.page(optionalString('cursor', cursor), signal);
      return { [key]: items, ...rest };
    });
  };

  table.set('initialize', async (params, { client }) => initialize(source, params, client));
  table.set('server/discover', async () => discoverResult(source.info, capabilitiesOf(source)));
  table.set('subscriptions/listen', (params, context) => serveListen(source, params, context));
  table.set('ping', async () => ({}));
  table.set('logging/setLevel', async ({ level }, { client }) => {
    const name = string('level', level);
    if (name.length > MAX_LEVEL_CHARS) throw invalid('invalid params: unknown level');
    client.logLevel = name;
    return {};
  });
  list('tools/list', 'tools', (options) => source.listTools(options));
  table.set('tools/call', (params, context) => serveCall(source, params, context));
  list('resources/list', 'resources', source.listResources?.bind(source));
  list('resources/templates/list', 'resourceTemplates', source.listResourceTemplates?.bind(source));
  list('prompts/list', 'prompts', source.listPrompts?.bind(source));
  if (source.readResource)
    table.set('resources/read', async (params, context) => {
      const uri = string('uri', params['uri']);
      const { caller, cancellation } = context;
      const { signal } = cancellation;
      return serveWithQuestions('resources/read', params, context, async (ask) => {
        const contents: JsonObject[] = [];
        for await (const part of source.readResource!(uri, { signal, ask, caller }))
          contents.push(part);
        return { contents };
      });
    });
  if (source.listResources && source.listen) {
    table.set('resources/subscribe', async ({ uri }, { client }) => {
      await client.watch?.add(string('uri', uri));
      return {};
    });
    table.set('resources/unsubscribe', async ({ uri }, { client }) => {
      client.watch?.remove(string('uri', uri));
      return {};
    });
  }
  if (source.getPrompt)
    table.set('prompts/get', async (params, context) => {
      const name = string('name', params['name']);
      const args = object('arguments', params['arguments'] ?? {});
      const { caller, cancellation } = context;
      const { signal } = cancellation;
      return serveWithQuestions('prompts/get', params, context, (ask) =>
        source.getPrompt!(name, args, { signal, ask, caller }),
      );
    });
  if (source.complete)
    table.set('completion/complete', async (params, { cancellation: { signal } }) =>
      source.complete!(params, { signal }),
    );
  for (const [name, handler] of taskMethods(source)) table.set(name, handler);
  return {
    table,
    [Symbol.asyncDispose]: disposeOnce(async () => {
      for (const pages of lists) await pages[Symbol.asyncDispose]();
    }),
  };
}

/** Handles `initialize`: agrees on a version of the session protocol. */
function initialize(source: ToolSource, params: JsonObject, client: ClientState): JsonObject {
  const wanted = string('protocolVersion', params['protocolVersion']);
  const capabilities = asObject(params['capabilities']);
  if (JSON.stringify(capabilities).length > MAX_CAPABILITIES_CHARS)
    throw invalid(
      `invalid params: capabilities must have at most ${MAX_CAPABILITIES_CHARS} characters`,
    );
  client.capabilities = capabilities;
  const { name, version, instructions } = source.info;
  return {
    protocolVersion: PROTOCOL_VERSIONS.find((known) => known === wanted) ?? PROTOCOL_VERSIONS[0],
    capabilities: capabilitiesOf(source),
    serverInfo: { name, version },
    ...(instructions !== undefined && { instructions }),
  };
}

/** The capabilities of a source, by its optional members. */
function capabilitiesOf(source: ToolSource): JsonObject {
  const listChanged = source.listen !== undefined;
  return {
    logging: {},
    tools: { listChanged },
    ...(source.listResources && { resources: { listChanged, subscribe: listChanged } }),
    ...(source.listPrompts && { prompts: { listChanged } }),
    ...(source.complete && { completions: {} }),
    ...(source.tasks && TASK_CAPABILITY),
  };
}

function string(name: string, value: unknown): string {
  if (typeof value === 'string') return value;
  throw invalid(`invalid params: ${name} must be a string`);
}

const optionalString = (name: string, value: unknown): string | undefined =>
  value === undefined || value === null ? undefined : string(name, value);

function object(name: string, value: unknown): JsonObject {
  if (isObject(value)) return value;
  throw invalid(`invalid params: ${name} must be an object`);
}
