import { once } from 'node:events';
import { afterAll, beforeAll, expect } from 'vitest';
import type { ClientBinding } from '../../src/a2a/index.ts';
import type { Agent } from '../../src/event/types.ts';
import { serve, type Served } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { sleep } from '../../src/stream/index.ts';
import { peer } from '../peers.ts';
import { suite, verifies } from '../verifies.ts';
import { httpServer } from './support.ts';

const sdk = await peer('a2a-sdk');

/** `N`: says N words. `wait`: waits to be canceled. `draw`: gives an artifact in two chunks. */
const agent: Agent = async function* (turn, ctx) {
  const [part] = turn.parts;
  const text = part && 'text' in part ? part.text : '';
  yield { type: 'status', message: 'Analysing your request...' };
  if (text === 'wait') await once(ctx.signal, 'abort');
  if (text === 'draw') {
    yield { type: 'artifact', artifactId: 'a', name: 'drawing', parts: [{ text: 'left ' }] };
    const rest = [{ text: 'right' }];
    yield { type: 'artifact', artifactId: 'a', parts: rest, append: true, last: true };
  }
  for (let n = 0; n < Number(text); n++) {
    await sleep(2, ctx.signal);
    yield { type: 'text.delta', id: 't', delta: `w${n} ` };
  }
};

/** The two SDKs differ in their types; what the tests need of either is this. */
interface Client {
  sendMessage(params: unknown): Promise<unknown>;
  sendMessageStream(params: unknown): AsyncIterable<unknown>;
  getTask(params: unknown): Promise<unknown>;
  cancelTask(params: unknown): Promise<unknown>;
  resubscribeTask(params: unknown): AsyncIterable<unknown>;
  listTasks?(params: unknown): Promise<unknown>;
  createTaskPushNotificationConfig?(params: unknown): Promise<unknown>;
}

interface ClientModule {
  ClientFactory: new (options?: unknown) => { createFromUrl(url: string): Promise<Client> };
  JsonRpcTransportFactory: new (options?: unknown) => unknown;
  RestTransportFactory: new (options?: unknown) => unknown;
}

interface GrpcModule {
  GrpcTransportFactory: new (options?: unknown) => unknown;
}

interface Speaker {
  readonly name: string;
  readonly module: string;
  readonly binding: ClientBinding;
  message(text: string): unknown;
}

const message10 = (text: string): unknown => ({
  message: {
    messageId: crypto.randomUUID(),
    role: 1,
    parts: [{ content: { $case: 'text', value: text }, mediaType: '', filename: '' }],
    contextId: '',
    taskId: '',
    extensions: [],
    referenceTaskIds: [],
  },
  tenant: '',
});
const message03 = (text: string): unknown => ({
  message: {
    kind: 'message',
    messageId: crypto.randomUUID(),
    role: 'user',
    parts: [{ kind: 'text', text }],
  },
});
const SPEAKERS: readonly Speaker[] = (['JSONRPC', 'HTTP+JSON', 'GRPC'] as const).flatMap(
  (binding) => [
    { name: `1.3.0 over ${binding}`, module: '@a2a-js/sdk/client', binding, message: message10 },
    { name: `0.3.14 over ${binding}`, module: 'a2a-sdk-03/client', binding, message: message03 },
  ],
);

/** The words of a stream, whichever way the SDK presents its events. */
const words = (events: readonly unknown[]): string =>
  [...JSON.stringify(events).matchAll(/"(w\d+ )"/g)].map(([, word]) => word).join('');

/** An event without what differs: is it the same one? */
const stateOf = (event: unknown): string => {
  const text = JSON.stringify(event);
  const [, state = ''] = /"state":("?[\w-]+"?)/.exec(text) ?? [];
  return state.replaceAll('"', '');
};
const COMPLETED = ['3', 'completed'];
const CANCELED = ['5', 'canceled'];

const idOf = (events: readonly unknown[]): string => {
  const [, id = ''] = /"id":"([^"]+)"/.exec(JSON.stringify(events[0])) ?? [];
  return id;
};

suite('a2a-sdk', sdk.reason, () => {
  let served: Served;
  beforeAll(async () => {
    served = await serve(agent, {
      log: memoryLog(),
      page: false,
      graceMs: 200,
      grpc: {},
      a2a: { push: { allowPrivateAddresses: true } },
    });
  });
  afterAll(() => served[Symbol.asyncDispose]());

  const open = async ({ module, binding }: Speaker): Promise<Client> => {
    const { ClientFactory, ...http } = (await sdk.import(module)) as unknown as ClientModule;
    const grpc = (await sdk.import(`${module}/grpc`)) as unknown as GrpcModule;
    const legacyCompat = { enabled: false };
    const transports = {
      JSONRPC: () => new http.JsonRpcTransportFactory({ legacyCompat }),
      'HTTP+JSON': () => new http.RestTransportFactory({ legacyCompat }),
      GRPC: () => new grpc.GrpcTransportFactory({ legacyCompat }),
    };
    const options = { transports: [transports[binding]()], preferredTransports: [binding] };
    return new ClientFactory(options).createFromUrl(served.url);
  };

  for (const speaker of SPEAKERS) {
    verifies(
      ['S122', 'S124', 'S125', 'S126', 'S127', 'S132', 'S192'],
      `the official client ${speaker.name} streams, disconnects, resumes and misses no event`,
      async () => {
        const client = await open(speaker);
        const seen: unknown[] = [];
        for await (const event of client.sendMessageStream(speaker.message('40'))) {
          seen.push(event);
          if (words(seen).includes('w5 ')) break;
        }
        const rest: unknown[] = [];
        for await (const event of client.resubscribeTask({ id: idOf(seen), tenant: '' }))
          rest.push(event);
        // The snapshot has all words so far as one text, the events behind it the rest.
        const all = [...JSON.stringify(rest).matchAll(/w\d+ /g)].map(([word]) => word);
        expect(new Set(all)).toEqual(new Set(Array.from({ length: 40 }, (_, n) => `w${n} `)));
        expect(COMPLETED).toContain(stateOf(rest.at(-1)));
        const task = await client.getTask({ id: idOf(seen), tenant: '' });
        expect(COMPLETED).toContain(stateOf(task));
      },
    );

    verifies(
      ['S134', 'S126', 'S173'],
      `the official client ${speaker.name} sends, and gets an artifact in chunks`,
      async () => {
        const client = await open(speaker);
        const sent = await client.sendMessage(speaker.message('draw'));
        expect(COMPLETED).toContain(stateOf(sent));
        expect(JSON.stringify(sent)).toMatch(/left .*right/);
      },
    );

    verifies(
      ['S134', 'S175'],
      `the official client ${speaker.name} cancels, and its stream ends as canceled`,
      async () => {
        const client = await open(speaker);
        const seen: unknown[] = [];
        for await (const event of client.sendMessageStream(speaker.message('wait'))) {
          seen.push(event);
          if (seen.length === 3)
            expect(CANCELED).toContain(
              stateOf(await client.cancelTask({ id: idOf(seen), tenant: '' })),
            );
        }
        expect(CANCELED).toContain(stateOf(seen.at(-1)));
      },
    );
  }

  verifies('S134', 'the official 1.0 client lists tasks and is notified of one', async () => {
    const [speaker] = SPEAKERS as [Speaker];
    const client = await open(speaker);
    const bodies: string[] = [];
    await using receiver = await httpServer(({ headers }, response, body) => {
      bodies.push(`${String(headers['x-a2a-notification-token'])} ${body}`);
      response.end();
    });
    const stream = client.sendMessageStream(speaker.message('wait'))[Symbol.asyncIterator]();
    const first = await stream.next();
    const taskId = idOf([first.value]);
    await client.createTaskPushNotificationConfig?.({
      taskId,
      id: 'c',
      url: receiver.url,
      token: 'secret',
    });
    await client.cancelTask({ id: taskId });
    await expect.poll(() => bodies.join('\n')).toMatch(/^secret .*TASK_STATE_CANCELED/m);
    await stream.return?.();
    const page = await client.listTasks?.({ pageSize: 2, pageToken: '', status: 0 });
    expect(page).toMatchObject({ pageSize: 2 });
    expect((page as { tasks: unknown[] }).tasks).toHaveLength(2);
  });
});
