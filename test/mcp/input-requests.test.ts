import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import { dialMessages } from '../../src/mcp/json-rpc/client/dial-messages.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { asToolSource, type SdkServer } from '../../src/mcp/json-rpc/in-process.ts';
import { serveMessages } from '../../src/mcp/json-rpc/server/serve-messages.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import type { ToolCall, ToolEvent, ToolSource } from '../../src/mcp/types.ts';
import { messagePair } from '../support/mcp/message-pair.ts';
import { load, missing, serverV1, serverV2 } from '../support/mcp/mcp-sdk.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';
import { suite } from '../verifies.ts';

const CAN = { elicitation: {}, sampling: {}, roots: {} };

/** A tool that asks twice, once a person and once a program; and how often it was begun. */
function asking(): { readonly source: ToolSource; readonly runs: () => number } {
  let runs = 0;
  const prompts: Partial<ToolSource> = {
    async *listPrompts() {
      yield { name: 'greet' };
    },
    getPrompt: async (_, __, { ask } = {}) => ({
      messages: [await ask!({ id: 'who', kind: 'question', message: 'Who?' })].map(
        ({ content }) => ({
          role: 'user',
          content: { type: 'text', text: JSON.stringify(content) },
        }),
      ),
    }),
  };
  const registry = createRegistry({
    name: 'asking',
    tools: [
      tool('book', 'Books a table', {}, async (_, ctx) => {
        runs += 1;
        const day = await ctx.ask({ id: 'day', kind: 'question', message: 'When?' });
        const params = { messages: [], maxTokens: 10 };
        const data = { method: 'sampling/createMessage', params };
        const text = await ctx.ask({ id: 'text', kind: 'question', data });
        return `${JSON.stringify(day.content)} ${JSON.stringify(text.content)}`;
      }),
    ],
  });
  const source: ToolSource = {
    info: registry.info,
    listTools: (options) => registry.listTools(options),
    callTool: (each, options) => registry.callTool(each, options),
    ...prompts,
  };
  return { source, runs: () => runs };
}

const answerTo = async (method: string, params: JsonObject): Promise<JsonObject> =>
  method === 'elicitation/create'
    ? { action: 'accept', content: { to: params['message'] } }
    : { role: 'assistant', model: 'm', content: { type: 'text', text: 'Hm.' } };

const BOOKED =
  '{"to":"When?"} {"role":"assistant","model":"m","content":{"type":"text","text":"Hm."}}';

const inputOf = (events: readonly ToolEvent[]): ToolEvent & { type: 'input' } => {
  const last = events.at(-1);
  if (last?.type !== 'input') throw new Error(`no input: ${JSON.stringify(last)}`);
  return last;
};

/** The call again, with an answer to everything that it asked for. */
function answered(before: ToolCall, { requests, state }: ToolEvent & { type: 'input' }): ToolCall {
  const given = requests.map(({ id, message }) => ({
    id,
    action: 'accept' as const,
    content: { to: message ?? id },
  }));
  const answers = [...(before.answers ?? []), ...given];
  return { ...before, answers, ...(state !== undefined && { state }) };
}

describe('a server of the session protocol that asks during a call', () => {
  for (const protocol of ['session', 'stateless'] as const)
    test(`asks a client of the ${protocol} protocol through a bridge`, async () => {
      const { source } = asking();
      await using far = await offerHttp(source);
      await using middle = await dialHttp({ url: far.url, protocol: 'session', capabilities: CAN });
      await using near = await offerHttp(middle);
      await using dialled = await dialHttp({
        url: near.url,
        protocol,
        capabilities: CAN,
        onRequest: answerTo,
      });
      expect(await toArray(dialled.callTool(call('book')))).toEqual([
        { type: 'result', result: { content: [{ type: 'text', text: BOOKED }] } },
      ]);
      expect(await dialled.getPrompt!('greet', {})).toEqual({
        messages: [{ role: 'user', content: { type: 'text', text: '{"to":"Who?"}' } }],
      });
    });

  test('gets the answer in the open call when the call is repeated; elsewhere the call starts again', async () => {
    const { source, runs } = asking();
    await using far = await offerHttp(source);
    const open = () => dialHttp({ url: far.url, protocol: 'session', capabilities: CAN });
    await using here = await open();
    const first = call('book');
    const day = inputOf(await toArray(here.callTool(first)));
    expect(day.requests).toMatchObject([
      { callId: first.id, kind: 'question', message: 'When?', data: { method: expect.anything() } },
    ]);
    const second = answered(first, day);
    const text = inputOf(await toArray(here.callTool(second)));
    const begun = runs();
    const third = answered(second, text);
    await using elsewhere = await open();
    for (const each of [here, elsewhere])
      expect(await toArray(each.callTool(third))).toMatchObject([
        { type: 'result', result: { content: [{ text: expect.stringContaining('When?') }] } },
      ]);
    // The source itself runs again for each answer; elsewhere it starts with none.
    expect(runs() - begun).toBe(1 + 3);
  });

  test('gets the answer through a bridge to gRPC: the waiting call continues', async () => {
    const { source, runs } = asking();
    await using far = await offerHttp(source);
    await using middle = await dialHttp({ url: far.url, protocol: 'session', capabilities: CAN });
    await using near = await offerGrpc(middle);
    await using dialled = await dialGrpc({ url: near.url });
    const first = call('book');
    const second = answered(first, inputOf(await toArray(dialled.callTool(first))));
    const third = answered(second, inputOf(await toArray(dialled.callTool(second))));
    const begun = runs();
    expect(await toArray(dialled.callTool(third))).toMatchObject([
      { type: 'result', result: { content: [{ text: expect.stringContaining('When?') }] } },
    ]);
    expect(runs() - begun).toBe(1);
  });

  test('asks each of many calls its own question, and a cancelled call nothing more', async () => {
    const { source } = asking();
    await using far = await offerHttp(source);
    await using here = await dialHttp({ url: far.url, protocol: 'session', capabilities: CAN });
    const calls = Array.from({ length: 8 }, () => call('book'));
    const inputs = await Promise.all(calls.map((each) => toArray(here.callTool(each))));
    for (const [n, events] of inputs.entries())
      expect(inputOf(events).requests.map(({ callId }) => callId)).toEqual([calls[n]!.id]);
    const rest = await Promise.all(
      calls.map((each, n) => toArray(here.callTool(answered(each, inputOf(inputs[n]!))))),
    );
    for (const events of rest) expect(inputOf(events).requests[0]?.data).toMatchObject({});
  });

  test('is refused on a transport that does not show which of two calls it asks for', async () => {
    const [near, far] = messagePair();
    await using serving = serveMessages(asking().source, far);
    await using here = await dialMessages(near, { capabilities: CAN });
    const both = [1, 2].map(() => toArray(here.callTool(call('book'))));
    const [first] = await Promise.allSettled(both);
    expect(first).toMatchObject({ reason: { code: 'unsupported' } });
    expect(serving.done).toBeInstanceOf(Promise);
  });
});

interface Extra {
  sendRequest(request: JsonObject, schema: unknown): Promise<{ content?: { day?: string } }>;
}

type Asks = SdkServer & {
  registerTool(
    name: string,
    config: JsonObject,
    run: (args: unknown, extra: Extra) => Promise<JsonObject>,
  ): void;
  server: {
    elicitInput(params: JsonObject): Promise<JsonObject>;
    createMessage(params: JsonObject): Promise<JsonObject>;
    listRoots(): Promise<JsonObject>;
  };
};

const FORM = { type: 'object', properties: { day: { type: 'string' } } };

suite('a server object of the official SDK', missing, () => {
  test('asks each of several concurrent callers, as far as it names the call', async () => {
    const { server } = serverV1();
    const { ElicitResultSchema: schema } = load('@modelcontextprotocol/sdk/types.js') as JsonObject;
    (server as Asks).registerTool('trip', { inputSchema: {} }, async (_, extra) => {
      const params = { message: 'When?', requestedSchema: FORM };
      const { content } = await extra.sendRequest({ method: 'elicitation/create', params }, schema);
      return { content: [{ type: 'text', text: content?.day }] };
    });
    const source = await asToolSource(server);
    const calls = ['Monday', 'Tuesday', 'Friday'].map((day) => ({ day, made: call('trip') }));
    const inputs = await Promise.all(calls.map(({ made }) => toArray(source.callTool(made))));
    const results = calls.map(({ day, made }, n) => {
      const { requests, state } = inputOf(inputs[n]!);
      const answers = requests.map(
        ({ id }) => ({ id, action: 'accept', content: { day } }) as const,
      );
      return toArray(source.callTool({ ...made, answers, state: state! }));
    });
    for (const [n, events] of (await Promise.all(results)).entries())
      expect(events).toMatchObject([{ result: { content: [{ text: calls[n]!.day }] } }]);
    await server.close();
  });

  for (const [name, make] of [
    ['v1', serverV1],
    ['v2', serverV2],
  ] as const)
    test(`${name} asks its caller, through any server side`, async () => {
      const official = make();
      const { server } = official.server as Asks;
      official.add('trip', 'Plans', {}, async () => {
        const { content } = await server.elicitInput({ message: 'When?', requestedSchema: FORM });
        const sampled = await server.createMessage({ messages: [], maxTokens: 5 });
        const { roots } = await server.listRoots();
        return {
          content: [{ type: 'text', text: JSON.stringify([content, sampled['content'], roots]) }],
        };
      });
      const source = await asToolSource(official.server);
      const [near, far] = messagePair();
      const asked: string[] = [];
      // A person answers through the offer; the rest goes to the program that called.
      await using serving = serveMessages(source, far, {
        ask: async ({ id, message }) => {
          asked.push(String(message));
          return { id, action: 'accept', content: { day: 'Friday' } };
        },
      });
      await using dialled = await dialMessages(near, {
        capabilities: CAN,
        onRequest: async (method, params) => {
          asked.push(method);
          if (method === 'roots/list') return { roots: [{ uri: 'file:///home', name: 'home' }] };
          return answerTo(method, params);
        },
      });
      expect(await toArray(dialled.callTool(call('trip')))).toEqual([
        {
          type: 'result',
          result: {
            content: [
              {
                type: 'text',
                text: '[{"day":"Friday"},{"type":"text","text":"Hm."},[{"uri":"file:///home","name":"home"}]]',
              },
            ],
          },
        },
      ]);
      expect(asked).toEqual(['When?', 'sampling/createMessage', 'roots/list']);
      await official.server.close();
      expect(serving.done).toBeInstanceOf(Promise);
    });
});
