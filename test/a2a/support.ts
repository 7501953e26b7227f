import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { serve, type Served } from '../../src/serve/index.ts';
import type { TaskLog } from '../../src/task/types.ts';
import { createRunner, memoryLog } from '../../src/task/index.ts';
import {
  a2aServer,
  type A2AServer,
  type A2AServerOptions,
  type ClientBinding,
} from '../../src/a2a/index.ts';
import { InvalidLine, SseDecoder } from '../../src/wire/index.ts';

export type Version = '0.3' | '1.0';

export interface Way {
  readonly version: Version;
  readonly binding: ClientBinding;
}

/** Every way in which our client can talk to our server. */
export const WAYS: readonly Way[] = (['1.0', '0.3'] as const).flatMap((version) =>
  (['JSONRPC', 'HTTP+JSON', 'GRPC'] as const).map((binding) => ({ version, binding })),
);

/** An event of a stream as it came, and the id that resumes behind it. */
export interface Seen {
  readonly id: string;
  readonly rpcId: unknown;
  readonly result: JsonObject;
}

/** A caller with nothing but fetch, so that tests see the bytes that others see. */
export class Caller {
  readonly url: string;
  readonly version: Version;

  constructor(url: string, version: Version = '1.0') {
    this.url = `${url}/a2a`;
    this.version = version;
  }

  message(words: string, more: JsonObject = {}): JsonObject {
    const part = { text: words };
    const parts = this.version === '1.0' ? [part] : [{ kind: 'text', ...part }];
    const role = this.version === '1.0' ? 'ROLE_USER' : 'user';
    return { message: { messageId: randomUUID(), role, parts, ...more } };
  }

  async post(
    method: string,
    params: unknown,
    headers: Record<string, string> = {},
    signal?: AbortSignal,
  ): Promise<Response> {
    return fetch(this.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'a2a-version': this.version, ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: 7, method, params }),
      ...(signal && { signal }),
    });
  }

  async call(method: string, params: unknown): Promise<JsonObject> {
    const body = (await (await this.post(method, params)).json()) as JsonObject;
    return body;
  }

  /** Reads a stream to its end, or leaves it by `break`. */
  async *stream(
    method: string,
    params: unknown,
    headers?: Record<string, string>,
  ): AsyncGenerator<Seen, void, undefined> {
    const stop = new AbortController();
    const response = await this.post(method, params, headers, stop.signal);
    const decoder = new SseDecoder();
    try {
      for await (const chunk of response.body ?? []) {
        for (const event of decoder.decode(chunk)) {
          if (event instanceof InvalidLine) throw event.error;
          const { id, result, error } = JSON.parse(event.data) as JsonObject;
          yield { id: event.lastEventId, rpcId: id, result: (result ?? { error }) as JsonObject };
        }
      }
    } finally {
      stop.abort();
      await response.body?.cancel().catch(() => {}); // the server may be gone
    }
  }

  say(text: string, more?: JsonObject): AsyncGenerator<Seen, void, undefined> {
    return this.stream(
      this.version === '1.0' ? 'SendStreamingMessage' : 'message/stream',
      this.message(text, more),
    );
  }

  subscribe(task: string, after?: string): AsyncGenerator<Seen, void, undefined> {
    const method = this.version === '1.0' ? 'SubscribeToTask' : 'tasks/resubscribe';
    return this.stream(method, { id: task }, after === undefined ? {} : { 'last-event-id': after });
  }
}

export const serveAgent = (agent: Agent, log: TaskLog = memoryLog()): Promise<Served> =>
  serve(agent, { log, page: false, graceMs: 200 });

/** An agent behind A2A with nothing around it: no listener, no guard, no page. */
export function mountAgent(
  url: string,
  agent: Agent = async function* () {
    yield { type: 'text.delta', id: 't', delta: 'hello' };
  },
  options: Partial<A2AServerOptions> = {},
): AsyncDisposable & { readonly log: TaskLog; readonly handle: A2AServer['handle'] } {
  const log = options.log ?? memoryLog();
  const runner = createRunner({ log, agents: { agent }, graceMs: 200 });
  const description = { name: 'test', description: 'for tests' };
  const server = a2aServer({ description, url, runner, ...options, agent: 'agent', log });
  return {
    log,
    handle: (...args) => server.handle(...args),
    async [Symbol.asyncDispose]() {
      await runner[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
      await log[Symbol.asyncDispose]();
    },
  };
}

export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = [];
  for await (const item of items) seen.push(item);
  return seen;
}

/** What an event is, in a word: `task`, a state, or the name of an artifact. */
export function wordOf({ result }: Seen): string {
  const update =
    result['statusUpdate'] ?? (result['kind'] === 'status-update' ? result : undefined);
  if (update) {
    const state = (update as { status: { state: string } }).status.state;
    return state.replace('TASK_STATE_', '').toLowerCase().replaceAll('_', '-');
  }
  if (result['task'] ?? result['kind'] === 'task') return 'task';
  if (result['artifactUpdate'] ?? result['kind'] === 'artifact-update') return 'artifact';
  return 'error' in result ? 'error' : '?';
}

/** The words with runs of the same one folded. */
export const shape = (events: readonly Seen[]): readonly string[] =>
  events.map(wordOf).filter((word, i, words) => word !== words[i - 1]);

/** The text of the response artifact, put together as a client does. */
export function textOf(events: readonly Seen[]): string {
  let text = '';
  for (const { result } of events) {
    const update = (result['artifactUpdate'] ?? result) as {
      artifact?: { name?: string; parts: { text?: string }[] };
      append?: boolean;
    };
    if (update.artifact?.name !== 'response') continue;
    const piece = update.artifact.parts.map((part) => part.text ?? '').join('');
    text = update.append ? text + piece : piece;
  }
  return text;
}

export const taskIdOf = ([first]: readonly Seen[]): string => {
  const task = (first?.result['task'] ?? first?.result) as { id: string };
  return task.id;
};

/** A bare HTTP server that hands over each request with its body. */
export async function httpServer(
  handle: (request: IncomingMessage, response: ServerResponse, body: string) => void,
): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((request, response) => {
    void text(request).then((body) => handle(request, response, body));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}
