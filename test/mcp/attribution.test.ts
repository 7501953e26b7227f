import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import { dialMessages } from '../../src/mcp/json-rpc/client/dial-messages.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { serveMessages } from '../../src/mcp/json-rpc/server/serve-messages.ts';
import type { DialMessagesOptions, ToolEvent, ToolSource } from '../../src/mcp/types.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';
import { messagePair } from '../support/mcp/message-pair.ts';

const CAN = { elicitation: {}, sampling: {}, roots: {} };

interface Pipe {
  readonly source: ToolSource;
  /** Calls of the tool `wait` that are open. */
  readonly waiting: () => number;
  /** Sends a message that names no request; resolves with the answer to a question. */
  readonly say: (message: JsonObject) => Promise<JsonObject>;
  readonly tell: (message: JsonObject) => Promise<void>;
  readonly finish: () => void;
}

/**
 * A server behind a pipe, where nothing says which call a message is for. `quick` answers directly,
 * `wait` when it is finished, and `ask` with the answer to its question.
 */
async function pipe(
  scope: Disposer,
  options: DialMessagesOptions = {},
  requestOf: (message: JsonObject) => number | undefined = () => undefined,
): Promise<Pipe> {
  const [near, far] = messagePair();
  const open: unknown[] = [];
  const answers = new Map<unknown, (message: JsonObject) => void>();
  let asked = 0;
  const answer = (id: unknown, result: JsonObject): Promise<void> =>
    far.send({ jsonrpc: '2.0', id, result });
  const result = (text: string): JsonObject => ({ content: [{ type: 'text', text }] });
  const say = async (message: JsonObject): Promise<JsonObject> => {
    const id = `q${(asked += 1)}`;
    const answered = new Promise<JsonObject>((resolve) => answers.set(id, resolve));
    await far.send({ jsonrpc: '2.0', id, ...message });
    return answered;
  };
  const serve = async (): Promise<void> => {
    for await (const message of far.incoming) {
      const { id, method, params } = message as { id: unknown; method: string; params: JsonObject };
      if (method === undefined) answers.get(id)?.(message);
      else if (method === 'initialize')
        await answer(id, {
          protocolVersion: '2025-11-25',
          capabilities: { tools: {}, logging: {} },
          serverInfo: { name: 'pipe', version: '1' },
        });
      else if (method === 'tools/call' && params['name'] === 'wait') open.push(id);
      else if (method === 'tools/call' && params['name'] === 'quick')
        await answer(id, result('done'));
      else if (method === 'tools/call')
        say(QUESTION)
          .then((said) => answer(id, result(JSON.stringify(said['result'] ?? said['error']))))
          .catch(() => {});
    }
  };
  serve().catch(() => {});
  const source = scope.use(
    await dialMessages({ ...near, requestOf }, { capabilities: CAN, ...options }),
  );
  return {
    source,
    waiting: () => open.length,
    say,
    tell: (message) => far.send({ jsonrpc: '2.0', ...message }),
    finish: () => {
      for (const id of open.splice(0)) answer(id, result('done')).catch(() => {});
    },
  };
}

const QUESTION = {
  method: 'elicitation/create',
  params: { message: 'Your PIN?', requestedSchema: { type: 'object', properties: {} } },
};
const LINE = { method: 'notifications/message', params: { level: 'info', data: 'PIN is 1234' } };

interface Person {
  readonly source: ToolSource;
  /** What this person was asked. */
  readonly asked: string[];
}

type Join = (source: ToolSource, scope: Disposer) => Promise<() => Promise<Person>>;

const answering = (): { asked: string[] } & Pick<DialMessagesOptions, 'onRequest'> => {
  const asked: string[] = [];
  return {
    asked,
    onRequest: async (_, params) => {
      asked.push(String(params['message']));
      return { action: 'accept', content: {} };
    },
  };
};

const overHttp =
  (protocol: 'session' | 'stateless'): Join =>
  async (source, scope) => {
    const { url } = scope.use(await offerHttp(source));
    return async () => {
      const { asked, onRequest } = answering();
      const options = { url, protocol, capabilities: CAN, ...(onRequest && { onRequest }) };
      return { asked, source: scope.use(await dialHttp(options)) };
    };
  };

const JOINS: Readonly<Record<string, Join>> = {
  'sessions over HTTP': overHttp('session'),
  'HTTP without sessions': overHttp('stateless'),
  'message connections': async (source, scope) => async () => {
    const [near, far] = messagePair();
    scope.use(serveMessages(source, far));
    const { asked, onRequest } = answering();
    const options = { capabilities: CAN, ...(onRequest && { onRequest }) };
    return { asked, source: scope.use(await dialMessages(near, options)) };
  },
  gRPC: async (source, scope) => {
    const { url } = scope.use(await offerGrpc(source));
    return async () => ({ asked: [], source: scope.use(await dialGrpc({ url })) });
  },
  'gRPC through one shared client': async (source, scope) => {
    const { url } = scope.use(await offerGrpc(source));
    return overHttp('session')(scope.use(await dialGrpc({ url })), scope);
  },
  'a second bridge with one session for all': async (source, scope) => {
    const { url } = scope.use(await offerHttp(source));
    const shared = scope.use(await dialHttp({ url, protocol: 'session', capabilities: CAN }));
    return overHttp('session')(shared, scope);
  },
};

const inputs = (events: readonly ToolEvent[]): readonly ToolEvent[] =>
  events.filter(({ type }) => type === 'input' || type === 'log');

const until = async (done: () => boolean): Promise<void> => {
  while (!done()) await new Promise((resolve) => setImmediate(resolve));
};

describe('a message of a server outside of a call', () => {
  for (const [name, join] of Object.entries(JOINS))
    test(`never reaches another client: ${name}`, async () => {
      await using scope = new Disposer();
      const server = await pipe(scope);
      const enter = await join(server.source, scope);
      const [a, b] = [await enter(), await enter()];
      await toArray(a.source.callTool(call('quick')));
      const running = toArray(b.source.callTool(call('wait')));
      await until(() => server.waiting() === 1);
      // The call of A is over, and that of B is the only one: the question may be for A all the same.
      const answer = await server.say(QUESTION);
      await server.tell(LINE);
      server.finish();
      const events = await running;
      expect({ answer, asked: b.asked, said: inputs(events) }).toMatchObject({
        answer: { error: { message: expect.stringContaining('several clients') as string } },
        asked: [],
        said: [],
      });
    });
});

const answers = (event: ToolEvent | undefined) =>
  event?.type === 'input'
    ? event.requests.map(({ id }) => ({ id, action: 'accept' as const, content: {} }))
    : [];

/** The text of the result, with every question of the call accepted. */
async function accepting(source: ToolSource, made = call('ask')): Promise<string> {
  const last = (await toArray(source.callTool(made))).at(-1);
  if (last?.type === 'result') return JSON.stringify(last.result.content);
  const state = last?.type === 'input' ? last.state : undefined;
  return accepting(source, { ...made, answers: answers(last), ...(state && { state }) });
}

describe('a question of a server in a call', () => {
  for (const [name, join] of Object.entries(JOINS))
    test(`reaches the only client, or the only person: ${name}`, async () => {
      await using scope = new Disposer();
      const anonymous = name === 'HTTP without sessions';
      const server = await pipe(scope, { singleUser: anonymous });
      const { source } = await (await join(server.source, scope))();
      for (let calls = 0; calls < 3; calls += 1)
        expect(await accepting(source)).toContain('accept');
    });

  test('is refused if two requests without a session or a login may have two clients', async () => {
    await using scope = new Disposer();
    const server = await pipe(scope);
    const { source } = await (await JOINS['HTTP without sessions']!(server.source, scope))();
    expect(await accepting(source)).toContain('accept');
    expect(await accepting(source)).toContain('several clients');
  });

  test('on the stream of a request that has ended reaches no other request', async () => {
    await using scope = new Disposer();
    const server = await pipe(scope, { singleUser: true }, (message) => {
      const { method } = message;
      return method === QUESTION.method || method === LINE.method ? 1 : undefined;
    });
    await toArray(server.source.callTool(call('quick')));
    const running = toArray(server.source.callTool(call('wait')));
    await until(() => server.waiting() === 1);
    expect(await server.say(QUESTION)).toMatchObject({ error: { code: -32601 } });
    await server.tell(LINE);
    server.finish();
    expect(inputs(await running)).toEqual([]);
  });
});
