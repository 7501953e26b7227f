import { randomUUID } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { RESUME_EXTENSION } from '../protocol/agent-card.ts';
import { httpFailure, readResponse } from './read-response.ts';
import {
  chooseInterface,
  type ClientBinding,
  type Interface,
  type Preference,
} from './choose-interface.ts';
import { CLIENT_03, CLIENT_03_REST, CLIENT_10 } from './client-dialects.ts';
import { sendMessage } from './poll-task.ts';
import { A2AStream, type ServerCapabilities, type StreamOptions } from './a2a-stream.ts';
import { A2AHttpTransport } from './http-transport.ts';
import type { Fetch } from '../../http/light-fetch.ts';
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

export interface ConnectOptions extends Preference {
  /** Sent with every request, such as `authorization`, but only to the origin of the card. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Other origins that the card may point to and that get the headers too. */
  readonly origins?: readonly string[];
  /** Extensions that the caller speaks, by URI; the agent may require some. */
  readonly extensions?: readonly string[];
  readonly fetch?: Fetch;
  readonly signal?: AbortSignal;
  /** A stream without a single byte for so long is taken for dead and made again. */
  readonly silenceMs?: number;
}

export interface SendOptions extends StreamOptions {
  readonly taskId?: string;
  readonly contextId?: string;
  /** The same id twice is the same message, to servers that know. Made up by default. */
  readonly messageId?: string;
  readonly metadata?: JsonObject;
  readonly historyLength?: number;
  /** Do not wait for the end of the run. */
  readonly returnImmediately?: boolean;
  /** Where the server is to tell of the task's progress, too. */
  readonly push?: PushTarget;
}

interface CallOptions {
  readonly signal?: AbortSignal;
}

/** Reads the card of an agent and picks a version and a binding that both sides speak. */
export async function connectA2A(url: string, options: ConnectOptions = {}): Promise<A2AClient> {
  const home = cardAddress(url);
  const card = await fetchCard(home.href, options);
  const chosen = chooseInterface(card, options, home.protocol === 'https:');
  checkOrigin(chosen, home, options.origins ?? []);
  return new A2AClient(card, chosen, await openWire(chosen, options));
}

/** The card of a base address, or the address itself if it is one of a card; its query stays. */
function cardAddress(url: string): URL {
  if (!URL.canParse(url))
    throw new DuolaneError(
      'invalid',
      `${JSON.stringify(url)} is not an address; give one like https://example.com`,
    );
  const address = new URL(url);
  address.hash = '';
  if (address.pathname.endsWith('.json')) return address;
  const path = address.pathname.endsWith('/') ? address.pathname : `${address.pathname}/`;
  address.pathname = `${path}.well-known/agent-card.json`;
  return address;
}

const MAX_REDIRECTS = 5;

/** Redirects are followed within the origin only: the caller's secrets are for nobody else. */
async function fetchCard(address: string, options: ConnectOptions): Promise<JsonObject> {
  const { fetch = globalThis.fetch, headers = {}, signal } = options;
  for (let at = address, hops = 0; ; hops++) {
    const response = await fetch(at, {
      headers: { accept: 'application/json', 'a2a-version': '1.0', ...headers },
      redirect: 'manual',
      ...(signal && { signal }),
    }).catch((cause: unknown) => {
      signal?.throwIfAborted();
      throw new DuolaneError('network', `${at} cannot be reached: is the server running?`, {
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
          `the card at ${at} has moved to ${to.href}: use that address`,
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
    throw new DuolaneError('network', `the card at ${at} broke off; try again`, { cause });
  });
  if (!response.ok)
    throw httpFailure(response, `there is no agent card at ${at} for you (${response.status})`);
  const card = parsed(text);
  if (isObject(card)) return card;
  throw new DuolaneError('not_found', `what is at ${at} is no agent card; is the address right?`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Text that is not JSON is handled by the caller, which reports the address.
    return undefined;
  }
}

/** A card could point anywhere, and would be given the caller's secrets there. */
function checkOrigin({ url, binding }: Interface, home: URL, trusted: readonly string[]): void {
  const { origin, hostname, protocol, host } = new URL(url);
  const named = origin === 'null' ? `${protocol}//${host}` : origin;
  // gRPC has a port of its own on the same machine.
  const own = binding === 'GRPC' ? hostname === home.hostname : origin === home.origin;
  if (own || trusted.includes(named)) return;
  throw new DuolaneError(
    'invalid',
    `the card at ${home.href} points to ${named}; if that is right, name it in origins`,
  );
}

async function openWire(
  { url, binding, version, tenant }: Interface,
  { headers = {}, extensions = [], fetch = globalThis.fetch, silenceMs = 60_000 }: ConnectOptions,
): Promise<A2ATransport> {
  const common = { url, tenant, headers, extensions: [RESUME_EXTENSION, ...extensions] };
  if (binding === 'GRPC') {
    const { A2AGrpcTransport } = await import('../grpc/grpc-transport.ts');
    return new A2AGrpcTransport({ ...common, version });
  }
  const old = binding === 'JSONRPC' ? CLIENT_03 : CLIENT_03_REST;
  const dialect = version === '1.0' ? CLIENT_10 : old;
  return new A2AHttpTransport({ ...common, binding, dialect, fetch, silenceMs });
}

/** An agent behind A2A, version and binding chosen. */
export class A2AClient implements AsyncDisposable {
  readonly card: JsonObject;
  readonly version: '0.3' | '1.0';
  readonly binding: ClientBinding;
  readonly #wire: A2ATransport;
  readonly #abilities: ServerCapabilities;

  /** Made by `connectA2A`. */
  constructor(card: JsonObject, { binding, version }: Interface, wire: A2ATransport) {
    this.card = card;
    this.version = version;
    this.binding = binding;
    this.#wire = wire;
    this.#abilities = abilitiesOf(card);
  }

  /**
   * Sends a message and gives what follows as a stream. Nothing is sent before it is read. An agent
   * that does not stream is waited for, and with `returnImmediately` asked from the beginning.
   */
  stream(message: string | readonly A2APart[], options: SendOptions = {}): A2AStream {
    const params = paramsOf(message, options);
    return new A2AStream(this.#wire, { params }, this.#abilities, options);
  }

  /** Goes back to a task, behind the event with the id `after` if the server can. */
  resume(task: string, options: StreamOptions & { readonly after?: string } = {}): A2AStream {
    const { after } = options;
    const begin = { task, ...(after !== undefined && { after }) };
    return new A2AStream(this.#wire, begin, this.#abilities, options);
  }

  /** Sends a message and waits for the task to end or ask, or for the plain message that answers it. */
  async send(
    message: string | readonly A2APart[],
    options: SendOptions = {},
  ): Promise<A2ATask | A2AMessage> {
    const answer = await sendMessage(this.#wire, paramsOf(message, options), options.signal);
    return 'task' in answer ? answer.task : answer.message;
  }

  async get(
    task: string,
    { historyLength, signal }: CallOptions & { readonly historyLength?: number } = {},
  ): Promise<A2ATask> {
    const params = { id: task, ...(historyLength !== undefined && { historyLength }) };
    return this.#wire.dialect.decodeTask(await this.#wire.call('get', params, signal));
  }

  /** Stops a task. Resolves with it once the server has; throws `closed` when it had ended. */
  async cancel(task: string, { signal }: CallOptions = {}): Promise<A2ATask> {
    return this.#wire.dialect.decodeTask(await this.#wire.call('cancel', { id: task }, signal));
  }

  /** One page of tasks, newest change first; `unsupported` in 0.3, which has it on REST only. */
  async list(query: A2ATaskQuery = {}, { signal }: CallOptions = {}): Promise<A2ATaskPage> {
    const page = await this.#wire.call('list', { ...query }, signal);
    const { tasks, ...rest } = isObject(page) ? page : {};
    const { dialect } = this.#wire;
    const decoded = Array.isArray(tasks) ? tasks.map((task) => dialect.decodeTask(task)) : [];
    // The JSON form of protobuf leaves out what is empty or zero.
    const empty = { nextPageToken: '', pageSize: 0, totalSize: 0 };
    return { ...empty, ...rest, tasks: decoded } as A2ATaskPage;
  }

  /** Has a receiver told of what happens to a task from now on. The same id again replaces. */
  async createPushConfig(
    task: string,
    target: PushTarget,
    { signal }: CallOptions = {},
  ): Promise<PushConfig> {
    const made = await this.#wire.call('createPush', { ...target, taskId: task }, signal);
    return this.#wire.dialect.decodePush(made);
  }

  async getPushConfig(task: string, id: string, { signal }: CallOptions = {}): Promise<PushConfig> {
    const found = await this.#wire.call('getPush', { taskId: task, id }, signal);
    return this.#wire.dialect.decodePush(found);
  }

  async listPushConfigs(
    task: string,
    { signal }: CallOptions = {},
  ): Promise<readonly PushConfig[]> {
    const found = await this.#wire.call('listPush', { taskId: task }, signal);
    const list = isObject(found) ? found['configs'] : found;
    return Array.isArray(list) ? list.map((each) => this.#wire.dialect.decodePush(each)) : [];
  }

  /** Nobody is told any more, once it resolves. */
  async deletePushConfig(task: string, id: string, { signal }: CallOptions = {}): Promise<void> {
    await this.#wire.call('deletePush', { taskId: task, id }, signal);
  }

  /** The card for those who may see more; throws `unsupported` when there is none. */
  async extendedCard({ signal }: CallOptions = {}): Promise<JsonObject> {
    const card = await this.#wire.call('extendedCard', {}, signal);
    if (isObject(card)) return card;
    throw new DuolaneError('malformed', 'the server answered with no card');
  }

  /** Gives up what the binding holds; only gRPC has connections of its own. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#wire[Symbol.asyncDispose]();
  }
}

function paramsOf(message: string | readonly A2APart[], options: SendOptions): JsonObject {
  const { taskId, contextId, messageId = randomUUID(), metadata } = options;
  const { historyLength, returnImmediately, push } = options;
  const sent: A2AMessage = {
    messageId,
    role: 'ROLE_USER',
    parts: typeof message === 'string' ? [{ text: message }] : message,
    ...(taskId !== undefined && { taskId }),
    ...(contextId !== undefined && { contextId }),
    ...(metadata && { metadata }),
  };
  const configuration = {
    ...(push && { taskPushNotificationConfig: push }),
    ...(historyLength !== undefined && { historyLength }),
    ...(returnImmediately === true && { returnImmediately }),
  };
  return { message: sent, configuration };
}

function abilitiesOf({ capabilities }: JsonObject): ServerCapabilities {
  const { streaming, extensions } = isObject(capabilities) ? capabilities : {};
  const list: unknown[] = Array.isArray(extensions) ? extensions : [];
  return {
    exact: list.some((each) => isObject(each) && each['uri'] === RESUME_EXTENSION),
    streams: typeof streaming === 'boolean' ? streaming : undefined,
  };
}
