/** A load of A2A on servers in processes of their own: what `bench/a2a.ts` measures with. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';
import { fileURLToPath } from 'node:url';
import { SseDecoder, type SseMessage } from '../src/wire/sse.ts';

export interface Server {
  readonly url: string;
  ask(what: 'reset' | 'state' | 'collect'): Promise<{ rss: number; loopP99: number; cpu: number }>;
  stop(): void;
}

const SERVERS = fileURLToPath(new URL('fixtures/a2a-servers.mjs', import.meta.url));

/** One of `fixtures/a2a-servers.mjs`. */
export async function start(kind: string): Promise<Server> {
  const child: ChildProcess = fork(SERVERS, [kind], {
    execArgv: ['--expose-gc'],
  });
  const [{ url }] = (await once(child, 'message')) as [{ url: string }];
  return {
    url,
    async ask(what) {
      child.send(what);
      const [state] = (await once(child, 'message')) as [Awaited<ReturnType<Server['ask']>>];
      return state;
    },
    stop: () => child.disconnect(),
  };
}

export const agent: Agent = new Agent({ keepAlive: true, maxSockets: 2000 });
let messages = 0;

export interface Streamed {
  readonly headersMs: number;
  readonly firstMs: number;
  readonly totalMs: number;
  /** Characters of deltas: what the agent said, however it was cut into events. */
  readonly chars: number;
}

/** Resolves with the headers. */
export async function post(url: string, method: string, params: object): Promise<IncomingMessage> {
  const sent = request(url, {
    agent,
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
  });
  sent.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return response;
}

/** One stream read as fast as it comes; `onText` sees the bytes. */
export async function stream(
  url: string,
  work: object,
  onText: (text: string) => void = () => {},
): Promise<Streamed> {
  const startedAt = performance.now();
  const message = {
    messageId: `m${messages++}`,
    role: 'ROLE_USER',
    parts: [{ text: JSON.stringify(work) }],
  };
  const response = await post(url, 'SendStreamingMessage', { message });
  const headersMs = performance.now() - startedAt;
  let firstMs = 0;
  let chars = 0;
  response.setEncoding('latin1');
  for await (const chunk of response as AsyncIterable<string>) {
    if (firstMs === 0) firstMs = performance.now() - startedAt;
    for (let at = chunk.indexOf('xxxx'); at >= 0; at = chunk.indexOf('xxxx', at)) {
      let end = at;
      while (chunk[end] === 'x') end++;
      chars += end - at;
      at = end;
    }
    onText(chunk);
  }
  return { headersMs, firstMs, totalMs: performance.now() - startedAt, chars };
}

export async function inParallel(
  count: number,
  width: number,
  run: () => Promise<unknown>,
): Promise<void> {
  let left = count;
  const worker = async (): Promise<void> => {
    while (left-- > 0) await run();
  };
  await Promise.all(Array.from({ length: width }, worker));
}

/** A short task as clients of A2A follow one: fetch, events, JSON. Throws unless it ran to its end. */
export async function followTask(url: string): Promise<void> {
  const parts = [{ text: '{"n":1}' }];
  const message = { messageId: `m${messages++}`, role: 'ROLE_USER', parts };
  const call = { jsonrpc: '2.0', id: 1, method: 'SendStreamingMessage', params: { message } };
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
    body: JSON.stringify(call),
  });
  const decoder = new SseDecoder();
  const states: unknown[] = [];
  for await (const chunk of response.body ?? [])
    for (const event of decoder.decode(chunk)) {
      const { result } = JSON.parse((event as SseMessage).data) as { result: Update };
      states.push(result.statusUpdate?.status.state);
    }
  if (states.length !== 4 || states[3] !== 'TASK_STATE_COMPLETED')
    throw new Error(`a short task has four events, the last one its end, not ${states.join()}`);
}

interface Update {
  readonly statusUpdate?: { readonly status: { readonly state: string } };
}

/** The same by a reader that only counts bytes, so that the client costs next to nothing. */
export const countTask = async (url: string): Promise<void> => void (await stream(url, { n: 1 }));

/** Short tasks, 16 at a time: streams per second, and what one costs the server's processor. */
export async function shortTasks(
  server: Server,
  count: number,
  follow: (url: string) => Promise<void>,
): Promise<{ rate: number; cpuMs: number }> {
  const { cpu } = await server.ask('state');
  const startedAt = performance.now();
  await inParallel(count, 16, () => follow(server.url));
  const rate = count / ((performance.now() - startedAt) / 1000);
  return { rate, cpuMs: ((await server.ask('state')).cpu - cpu) / count };
}

/** One stream of `n` deltas of 64 bytes: the agent's deltas per second. */
export const oneStream =
  (n: number): ((server: Server) => Promise<number>) =>
  async ({ url }: Server): Promise<number> => {
    const { totalMs } = await stream(url, { n });
    return n / (totalMs / 1000);
  };
