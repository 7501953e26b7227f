import { randomUUID } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import {
  asArray,
  asObject,
  asObjects,
  isObject,
  omitUndefined,
  tryParse,
  type JsonObject,
} from '../../json.ts';
import { RESUME_EXTENSION } from '../protocol/agent-card.ts';
import { httpFailure, readResponse } from './read-response.ts';
import {
  chooseInterface,
  type ClientBinding,
  type Interface,
  type Preference,
} from './choose-interface.ts';
import { CLIENT_10 } from '../protocol/client-dialect.ts';
import { CLIENT_03 } from '../v0.3/json-rpc-dialect.ts';
import { CLIENT_03_REST } from '../v0.3/rest-dialect.ts';
import { sendMessage } from './poll-task.ts';
import { A2AStream, type ServerCapabilities, type StreamOptions } from './a2a-stream.ts';
import { A2AHttpTransport } from './http-transport.ts';
import type { A2ATransport } from './a2a-transport.ts';
import type {
  A2AMessage,
  A2APart,
  A2ATask,
  PushConfig,
  PushTarget,
  A2ATaskPage,
  A2ATaskQuery,
} from '../protocol/model.ts';

/** Options of `connectA2A`. */
export interface ConnectOptions extends Preference {
  /** Headers of every request, such as `authorization`; sent to the origin of the card only. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Further origins that the card may name and that also get the headers. */
  readonly origins?: readonly string[];
  /** URIs of extensions that the caller supports; the agent may require some. */
  readonly extensions?: readonly string[];
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
  readonly signal?: AbortSignal;
  /** Reconnects a stream that has sent no byte for this time. */
  readonly silenceMs?: number;
}

/** Options of `send` and `stream`. */
export interface SendOptions extends StreamOptions {
  readonly taskId?: string;
  readonly contextId?: string;
  /** A server that detects duplicates handles the same id once. Random by default. */
  readonly messageId?: string;
  readonly metadata?: JsonObject;
  readonly historyLength?: number;
  /** Return when the task exists, instead of waiting for the end of its run. */
  readonly returnImmediately?: boolean;
  /** A webhook that also gets the events of the task. */
  readonly push?: PushTarget;
}

interface CallOptions {
  readonly signal?: AbortSignal;
}

/**
 * Reads the card of an agent and chooses a version and a binding that both sides support. `agent`
 * is the agent's base URL, the URL of its card, or a card that the caller has and trusts.
 *
 * @example
 * await using client = await connectA2A('http://127.0.0.1:3000');
 * for await (const event of client.stream('hello')) console.log(event);
 */
export async function connectA2A(
  agent: string | JsonObject,
  options: ConnectOptions = {},
): Promise<A2AClient> {
  if (typeof agent !== 'string') {
    const chosen = chooseInterface(agent, options, false);
    return new A2AClient(agent, chosen, await openTransport(chosen, options));
  }
  const home = cardAddress(agent);
  const card = await fetchCard(home.href, options);
  const chosen = chooseInterface(card, options, home.protocol === 'https:');
  checkOrigin(chosen, home, options.origins ?? []);
  return new A2AClient(card, chosen, await openTransport(chosen, options));
}

/** The URL of the card: `url` itself if its path ends with `.json`. Keeps the query. */
function cardAddress(url: string): URL {
  if (!URL.canParse(url))
    throw new DuolaneError(
      'invalid',
      `invalid agent URL ${JSON.stringify(url)}: expected an address such as https://example.com`,
    );
  const address = new URL(url);
  address.hash = '';
  if (address.pathname.endsWith('.json')) return address;
  const path = address.pathname.endsWith('/') ? address.pathname : `${address.pathname}/`;
  address.pathname = `${path}.well-known/agent-card.json`;
  return address;
}

const MAX_REDIRECTS = 5;

/** Follows redirects within the origin only: another origin would get the caller's credentials. */
async function fetchCard(address: string, options: ConnectOptions): Promise<JsonObject> {
  const { fetch = globalThis.fetch, headers = {}, signal } = options;
  for (let at = address, hops = 0; ; hops++) {
    const response = await fetch(at, {
      headers: { accept: 'application/json', 'a2a-version': '1.0', ...headers },
      redirect: 'manual',
      ...(signal && { signal }),
    }).catch((cause: unknown) => {
      signal?.throwIfAborted();
      throw new DuolaneError('network', `cannot reach ${at}; check that the server is running`, {
        cause,
      });
    });
    const location = response.headers.get('location');
    if (location !== null && response.status >= 300 && response.status < 400) {
      await response.body?.cancel();
      const to = new URL(location, at);
      if (to.origin !== new URL(address).origin || hops === MAX_REDIRECTS)
        throw new DuolaneError(
          'invalid',
          `the agent card at ${at} redirects to ${to.href}; use that address`,
        );
      at = to.href;
      continue;
    }
    return await readCard(response, at, signal);
  }
}

async function readCard(
  response: Response,
  at: string,
  signal: AbortSignal | undefined,
): Promise<JsonObject> {
  const text = await readResponse(response).catch((cause: unknown) => {
    signal?.throwIfAborted();
    if (cause instanceof DuolaneError) throw cause;
    throw new DuolaneError(
      'network',
      `the connection was lost while reading the agent card at ${at}; try again`,
      { cause },
    );
  });
  if (!response.ok)
    throw httpFailure(
      response,
      `cannot read the agent card at ${at}: the server returned HTTP ${response.status}`,
    );
  const card = tryParse(text);
  if (isObject(card)) return card;
  throw new DuolaneError(
    'not_found',
    `${at} did not return an agent card: expected a JSON object; check the address`,
  );
}

/** Throws if the card names a foreign origin, which would get the caller's credentials. */
function checkOrigin({ url, binding }: Interface, home: URL, trusted: readonly string[]): void {
  const { origin, hostname, protocol, host } = new URL(url);
  const named = origin === 'null' ? `${protocol}//${host}` : origin;
  // The gRPC binding has its own port, so only the host name has to match. Credentials for a card
  // that was read over TLS are sent over TLS only.
  const isSafe = protocol === 'grpcs:' || home.protocol !== 'https:';
  const own = binding === 'GRPC' ? isSafe && hostname === home.hostname : origin === home.origin;
  if (own || trusted.includes(named)) return;
  throw new DuolaneError(
    'invalid',
    `the agent card at ${home.href} names the origin ${named}; add it to the option "origins" to trust it`,
  );
}

async function openTransport(
  { url, binding, version, tenant }: Interface,
  { headers = {}, extensions = [], fetch = globalThis.fetch, silenceMs = 60_000 }: ConnectOptions,
): Promise<A2ATransport> {
  const common = { url, tenant, headers, extensions: [RESUME_EXTENSION, ...extensions] };
  if (binding === 'GRPC') {
    const { A2AGrpcTransport } = await import('../grpc/grpc-transport.ts');
    return new A2AGrpcTransport({ ...common, version });
  }
  const dialect03 = binding === 'JSONRPC' ? CLIENT_03 : CLIENT_03_REST;
  const dialect = version === '1.0' ? CLIENT_10 : dialect03;
  return new A2AHttpTransport({ ...common, binding, dialect, fetch, silenceMs });
}

/** A client of one agent, in one version and over one binding. Created by `connectA2A`. */
export class A2AClient implements AsyncDisposable {
  readonly card: JsonObject;
  readonly version: '0.3' | '1.0';
  readonly binding: ClientBinding;
  readonly #transport: A2ATransport;
  readonly #capabilities: ServerCapabilities;

  /** Use `connectA2A`, which also opens the transport. */
  constructor(card: JsonObject, { binding, version }: Interface, transport: A2ATransport) {
    this.card = card;
    this.version = version;
    this.binding = binding;
    this.#transport = transport;
    this.#capabilities = capabilitiesOf(card);
  }

  /**
   * Sends a message and returns the events of its task. Nothing is sent before the stream is read.
   * If the agent does not stream, the client sends a blocking request and then polls the task; with
   * `returnImmediately` it polls from the beginning.
   */
  stream(message: string | readonly A2APart[], options: SendOptions = {}): A2AStream {
    const params = paramsOf(message, options);
    return new A2AStream(this.#transport, { params }, this.#capabilities, options);
  }

  /** Subscribes to a task, after the event with the id `after` if the server can resume. */
  resume(task: string, options: StreamOptions & { readonly after?: string } = {}): A2AStream {
    const { after } = options;
    const start = { task, ...(after !== undefined && { after }) };
    return new A2AStream(this.#transport, start, this.#capabilities, options);
  }

  /**
   * Sends a message. Resolves with the task when it has ended or waits for input, or with the reply
   * message.
   */
  async send(
    message: string | readonly A2APart[],
    options: SendOptions = {},
  ): Promise<A2ATask | A2AMessage> {
    const response = await sendMessage(this.#transport, paramsOf(message, options), options.signal);
    return 'task' in response ? response.task : response.message;
  }

  /** Reads a task. Throws `not_found` if it does not exist or belongs to another owner. */
  async get(
    task: string,
    { historyLength, signal }: CallOptions & { readonly historyLength?: number } = {},
  ): Promise<A2ATask> {
    const params = { id: task, ...(historyLength !== undefined && { historyLength }) };
    return this.#transport.dialect.decodeTask(await this.#transport.call('get', params, signal));
  }

  /** Cancels a task. Resolves with the canceled task; throws `closed` if it had already ended. */
  async cancel(task: string, { signal }: CallOptions = {}): Promise<A2ATask> {
    return this.#transport.dialect.decodeTask(
      await this.#transport.call('cancel', { id: task }, signal),
    );
  }

  /**
   * Reads one list page of tasks, newest change first. Throws `unsupported` in 0.3, except over
   * REST.
   */
  async list(query: A2ATaskQuery = {}, { signal }: CallOptions = {}): Promise<A2ATaskPage> {
    const page = await this.#transport.call('list', { ...query }, signal);
    const { tasks, ...rest } = asObject(page);
    const { dialect } = this.#transport;
    const decoded = asArray(tasks).map((task) => dialect.decodeTask(task));
    // The JSON form of protobuf omits members that are empty or zero.
    const empty = { nextPageToken: '', pageSize: 0, totalSize: 0 };
    return { ...empty, ...rest, tasks: decoded } as A2ATaskPage;
  }

  /**
   * Registers a webhook for the further events of a task. A config with the same id is replaced.
   */
  async createPushConfig(
    task: string,
    target: PushTarget,
    { signal }: CallOptions = {},
  ): Promise<PushConfig> {
    const made = await this.#transport.call('createPush', { ...target, taskId: task }, signal);
    return this.#transport.dialect.decodePush(made);
  }

  /** Reads one push config of a task. */
  async getPushConfig(task: string, id: string, { signal }: CallOptions = {}): Promise<PushConfig> {
    const found = await this.#transport.call('getPush', { taskId: task, id }, signal);
    return this.#transport.dialect.decodePush(found);
  }

  /** Lists the push configs of a task. */
  async listPushConfigs(
    task: string,
    { signal }: CallOptions = {},
  ): Promise<readonly PushConfig[]> {
    const found = await this.#transport.call('listPush', { taskId: task }, signal);
    const list = isObject(found) ? found['configs'] : found;
    return asArray(list).map((each) => this.#transport.dialect.decodePush(each));
  }

  /** Deletes a push config. After it resolves, no new delivery starts. */
  async deletePushConfig(task: string, id: string, { signal }: CallOptions = {}): Promise<void> {
    await this.#transport.call('deletePush', { taskId: task, id }, signal);
  }

  /** Reads the card for authenticated callers; throws `unsupported` if the agent has none. */
  async extendedCard({ signal }: CallOptions = {}): Promise<JsonObject> {
    const card = await this.#transport.call('extendedCard', {}, signal);
    if (isObject(card)) return card;
    throw new DuolaneError(
      'malformed',
      'the server sent an invalid extended card: expected a JSON object',
    );
  }

  /** Closes the connections of the gRPC binding. The others use those of `fetch`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#transport[Symbol.asyncDispose]();
  }
}

function paramsOf(message: string | readonly A2APart[], options: SendOptions): JsonObject {
  const { taskId, contextId, messageId = randomUUID(), metadata } = options;
  const { historyLength, returnImmediately, push } = options;
  const sent: A2AMessage = {
    messageId,
    role: 'ROLE_USER',
    parts: typeof message === 'string' ? [{ text: message }] : message,
    ...omitUndefined<Partial<A2AMessage>>({ taskId, contextId, metadata }),
  };
  const configuration = omitUndefined<JsonObject>({
    taskPushNotificationConfig: push,
    historyLength,
    returnImmediately: returnImmediately || undefined,
  });
  return { message: sent, configuration };
}

function capabilitiesOf({ capabilities }: JsonObject): ServerCapabilities {
  const { streaming, extensions } = asObject(capabilities);
  return {
    exact: asObjects(extensions).some((each) => each['uri'] === RESUME_EXTENSION),
    streams: typeof streaming === 'boolean' ? streaming : undefined,
  };
}
