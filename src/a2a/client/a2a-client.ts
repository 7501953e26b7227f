import { DuolaneError } from '../../errors.ts';
import type { Answer } from '../../ask.ts';
import {
  asArray,
  asObject,
  asObjects,
  isObject,
  omitUndefined,
  type JsonObject,
} from '../../json.ts';
import type { ClientBinding, Interface } from './choose-interface.ts';
import { sendMessage } from './poll-task.ts';
import { A2AStream, type ServerCapabilities, type StreamOptions } from './a2a-stream.ts';
import type { A2ATransport } from './a2a-transport.ts';
import { encodeAnswers } from './task-questions.ts';
import {
  RESUME_EXTENSION,
  type A2AMessage,
  type A2APart,
  type A2ATask,
  type PushConfig,
  type PushTarget,
  type A2ATaskPage,
  type A2ATaskQuery,
} from '../protocol/model.ts';

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
 * A client of one agent, in one version and over one binding. Created by `connectAgent` of
 * `duolane/client`, or by `connectA2A` of `duolane/a2a`.
 */
export class A2AClient implements AsyncDisposable {
  readonly card: JsonObject;
  readonly version: '0.3' | '1.0';
  readonly binding: ClientBinding;
  readonly #transport: A2ATransport;
  readonly #capabilities: ServerCapabilities;

  /** Use `connectAgent` or `connectA2A`, which also open the transport. */
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

  /**
   * Answers the open questions of a waiting task (`stream.questions`) and returns the events that
   * follow. Nothing is sent before they are read. Throws `invalid` if the task does not wait, or if
   * an answer names no open question.
   */
  answer(
    to: A2AStream | A2ATask,
    answers: readonly Answer[],
    options: SendOptions = {},
  ): A2AStream {
    const task = to instanceof A2AStream ? to.task : to;
    if (!task)
      throw new DuolaneError(
        'invalid',
        'cannot answer: the stream has no task; read it to its end first',
      );
    const { id: taskId, contextId, status } = task;
    return this.stream(encodeAnswers(status, answers), { contextId, ...options, taskId });
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
  const { taskId, contextId, messageId = randomId(), metadata } = options;
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

/** A random UUID. A page that was loaded over plain HTTP has no `crypto.randomUUID`. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  const variant = ((bytes[8] as number) & 0x3f) | 0x80;
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant.toString(16)}${hex.slice(18, 20)}-${hex.slice(20)}`;
}
