import { randomUUID } from 'node:crypto';
import { DuolaneError } from '../errors.ts';
import { isObject, type JsonObject } from '../json.ts';
import { RESUME_EXTENSION } from './card.ts';
import { chooseInterface, type Interface, type Preference } from './client-card.ts';
import { CLIENT_03, CLIENT_03_REST, CLIENT_10 } from './client-dialect.ts';
import { A2AStream, type StreamOptions } from './client-stream.ts';
import { ClientWire, type Fetch } from './client-wire.ts';
import type { A2AMessage, A2APart, A2ATask, TaskPage } from './model.ts';

export interface ConnectOptions extends Preference {
  /** Sent with every request, such as `authorization`, but only to the origin of the card. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Other origins that the card may point to and that get the headers too. */
  readonly origins?: readonly string[];
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
}

/** Reads the card of an agent and picks a version and a binding that both sides speak. */
export async function connectA2A(url: string, options: ConnectOptions = {}): Promise<A2AClient> {
  const { fetch = globalThis.fetch, headers = {}, signal } = options;
  const address = url.endsWith('.json')
    ? url
    : `${url.replace(/\/$/, '')}/.well-known/agent-card.json`;
  const response = await fetch(address, {
    headers: { accept: 'application/json', 'a2a-version': '1.0', ...headers },
    ...(signal && { signal }),
  }).catch((cause: unknown) => {
    throw new DuolaneError('network', `${address} cannot be reached`, { cause });
  });
  const card: unknown = response.ok ? await response.json().catch(() => undefined) : undefined;
  if (!isObject(card))
    throw new DuolaneError(
      'not_found',
      `there is no agent card at ${address} (${response.status})`,
    );
  const chosen = chooseInterface(card, options);
  const { origin } = new URL(chosen.url);
  // A card could point anywhere, and would be given the caller's secrets there.
  if (origin !== new URL(address).origin && !options.origins?.includes(origin))
    throw new DuolaneError(
      'invalid',
      `the card at ${address} points to ${origin}; if that is right, name it in origins`,
    );
  return new A2AClient(card, chosen, options);
}

/** An agent behind A2A, version and binding chosen. Holds no connection of its own. */
export class A2AClient {
  readonly card: JsonObject;
  readonly version: '0.3' | '1.0';
  readonly binding: 'JSONRPC' | 'HTTP+JSON';
  readonly #wire: ClientWire;
  readonly #exact: boolean;

  constructor(
    card: JsonObject,
    { url, binding, version, tenant }: Interface,
    options: ConnectOptions,
  ) {
    this.card = card;
    this.version = version;
    this.binding = binding;
    const old = binding === 'JSONRPC' ? CLIENT_03 : CLIENT_03_REST;
    this.#wire = new ClientWire({
      url,
      binding,
      tenant,
      dialect: version === '1.0' ? CLIENT_10 : old,
      headers: options.headers ?? {},
      fetch: options.fetch ?? globalThis.fetch,
      silenceMs: options.silenceMs ?? 60_000,
    });
    this.#exact = speaksResume(card);
  }

  /** Sends a message and gives what follows as a stream. Nothing is sent before it is read. */
  stream(message: string | readonly A2APart[], options: SendOptions = {}): A2AStream {
    const params = { message: messageOf(message, options) };
    return new A2AStream(this.#wire, { params }, this.#exact, options);
  }

  /** Goes back to a task, behind the event with the id `after` if the server can. */
  resume(task: string, options: StreamOptions & { readonly after?: string } = {}): A2AStream {
    const { after } = options;
    const begin = { task, ...(after !== undefined && { after }) };
    return new A2AStream(this.#wire, begin, this.#exact, options);
  }

  /** Sends a message and waits for the task to end or ask, or for the plain message that answers it. */
  async send(
    message: string | readonly A2APart[],
    options: SendOptions = {},
  ): Promise<A2ATask | A2AMessage> {
    const { historyLength, returnImmediately } = options;
    const configuration = {
      ...(historyLength !== undefined && { historyLength }),
      ...(returnImmediately === true && { returnImmediately }),
    };
    const params = { message: messageOf(message, options), configuration };
    const sent = await this.#wire.call('send', params, options.signal);
    const { event } = this.#wire.dialect.decodeEvent(sent);
    if ('task' in event) return event.task;
    if ('message' in event) return event.message;
    throw new DuolaneError('malformed', 'the server answered neither a task nor a message');
  }

  async get(
    task: string,
    {
      historyLength,
      signal,
    }: { readonly historyLength?: number; readonly signal?: AbortSignal } = {},
  ): Promise<A2ATask> {
    const params = { id: task, ...(historyLength !== undefined && { historyLength }) };
    return this.#wire.dialect.decodeTask(await this.#wire.call('get', params, signal));
  }

  /** Stops a task. Resolves with it once the server has; throws `closed` when it had ended. */
  async cancel(task: string, { signal }: { readonly signal?: AbortSignal } = {}): Promise<A2ATask> {
    return this.#wire.dialect.decodeTask(await this.#wire.call('cancel', { id: task }, signal));
  }

  /** One page of tasks, newest change first; `unsupported` in 0.3 over JSON-RPC, which has no such call. */
  async list(
    query: JsonObject = {},
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<TaskPage> {
    const page = await this.#wire.call('list', query, signal);
    const { tasks, ...rest } = isObject(page) ? page : {};
    const { dialect } = this.#wire;
    const decoded = Array.isArray(tasks) ? tasks.map((task) => dialect.decodeTask(task)) : [];
    return { ...rest, tasks: decoded } as unknown as TaskPage;
  }
}

const messageOf = (
  message: string | readonly A2APart[],
  { taskId, contextId, messageId = randomUUID(), metadata }: SendOptions,
): A2AMessage => ({
  messageId,
  role: 'ROLE_USER',
  parts: typeof message === 'string' ? [{ text: message }] : message,
  ...(taskId !== undefined && { taskId }),
  ...(contextId !== undefined && { contextId }),
  ...(metadata && { metadata }),
});

function speaksResume({ capabilities }: JsonObject): boolean {
  const extensions = isObject(capabilities) ? capabilities['extensions'] : undefined;
  const list: unknown[] = Array.isArray(extensions) ? extensions : [];
  return list.some((each) => isObject(each) && each['uri'] === RESUME_EXTENSION);
}
