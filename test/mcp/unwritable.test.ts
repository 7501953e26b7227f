import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { dialGrpc, offerGrpc, openTunnel } from '../../src/mcp/grpc/index.ts';
import {
  createRegistry,
  dialHttp,
  dialMessages,
  dialSse,
  offerHttp,
  offerStdio,
  serveMessages,
  tool,
  type ToolEvent,
  type ToolSource,
} from '../../src/mcp/index.ts';
import { dialTransport } from '../../src/mcp/json-rpc/stdio.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { messagePair } from '../support/mcp/message-pair.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';

const cycle: Record<string, unknown> = {};
cycle['itself'] = cycle;
let deep: unknown = 0;
for (let level = 0; level < 50_000; level += 1) deep = [deep];

/** What a handler may return and JSON cannot hold. */
const VALUES: Record<string, unknown> = { bigint: 10n, cycle, deep };

const unawaited: unknown[] = [];

const result = (value: unknown) => ({ content: [], structuredContent: { value } });

const source = createRegistry({
  name: 'unwritable',
  tools: [
    tool('fine', '', {}, async () => 'fine'),
    ...Object.entries(VALUES).flatMap(([name, value]) => [
      tool(`${name}-at-once`, '', {}, async () => result(value)),
      tool(`${name}-after-progress`, '', {}, async (_, ctx) => {
        await ctx.progress(1);
        return result(value);
      }),
      tool(`${name}-logged`, '', {}, async (_, ctx) => {
        const params = { level: 'info', data: value };
        // Many handlers do not await their events.
        unawaited.push(ctx.sendNotification({ method: 'notifications/message', params }));
        return 'fine';
      }),
    ]),
  ],
});

const WIRES: Record<string, (scope: Disposer) => Promise<ToolSource>> = {
  async 'HTTP without sessions'(scope) {
    const { url } = scope.use(await offerHttp(source));
    return scope.use(await dialHttp({ url, protocol: 'stateless' }));
  },
  async 'HTTP with a session'(scope) {
    const { url } = scope.use(await offerHttp(source));
    return scope.use(await dialHttp({ url, protocol: 'session' }));
  },
  async SSE(scope) {
    const { url } = scope.use(await offerHttp(source, { sse: '/sse' }));
    return scope.use(await dialSse({ url: url.replace('/mcp', '/sse') }));
  },
  async pipes(scope) {
    const [input, output] = [new PassThrough(), new PassThrough()];
    const serving = scope.use(offerStdio(source, { input, output }));
    return scope.use(
      await dialTransport({
        output,
        write: (text) => input.write(text),
        drained: async () => {},
        endInput: () => input.end(),
        exited: serving.done.then(() => ({ code: 0, stderr: '' })),
        async [Symbol.asyncDispose]() {
          input.end();
          output.end();
        },
      }),
    );
  },
  async 'a custom transport'(scope) {
    const [near, far] = messagePair();
    scope.use(serveMessages(source, far));
    return scope.use(await dialMessages(near));
  },
  async 'a tunnel'(scope) {
    const tunnel = (road: Parameters<typeof serveMessages>[1]) => serveMessages(source, road);
    const { url } = scope.use(await offerGrpc(source, { tunnel }));
    return scope.use(await dialMessages(openTunnel({ url })));
  },
  async gRPC(scope) {
    const { url } = scope.use(await offerGrpc(source));
    return scope.use(await dialGrpc({ url }));
  },
};

const lastOf = (events: readonly ToolEvent[]) => events.at(-1)?.type;

describe('a value that JSON cannot hold', () => {
  const unowned: unknown[] = [];
  const take = (reason: unknown): unknown => unowned.push(reason);
  beforeEach(() => {
    unowned.length = 0;
    process.on('unhandledRejection', take);
  });
  afterEach(() => void process.off('unhandledRejection', take));

  test.each(Object.entries(WIRES))(
    'fails its own call over %s and nothing else',
    async (_, open) => {
      await using scope = new Disposer();
      const far = await open(scope);
      for (const name of Object.keys(VALUES)) {
        for (const kind of ['at-once', 'after-progress'])
          await expect(toArray(far.callTool(call(`${name}-${kind}`)))).rejects.toMatchObject({
            name: 'DuolaneError',
          });
        expect(lastOf(await toArray(far.callTool(call('fine'))))).toBe('result');
      }
      expect(unowned).toEqual([]);
    },
  );

  // Over gRPC it fails its call. A custom transport may throw any error, which ends it.
  const ours = Object.entries(WIRES).filter(([name]) => !/^gRPC|custom/.test(name));
  test.each(ours)('in a log line is omitted over %s, and its call continues', async (_, open) => {
    await using scope = new Disposer();
    const far = await open(scope);
    for (const value of Object.keys(VALUES))
      expect(lastOf(await toArray(far.callTool(call(`${value}-logged`))))).toBe('result');
    expect(unowned).toEqual([]);
  });
});
