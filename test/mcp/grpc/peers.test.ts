import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../../src/json.ts';
import { dialGrpc, offerGrpc } from '../../../src/mcp/grpc/index.ts';
import { BLOCKS, ourCatalogue, TOOL_COUNT } from '../../support/mcp/catalogue.ts';
import { grpcJs, type JsServerCall, type JsStatus } from '../../support/mcp/grpc-js.ts';
import { peer } from '../../peers.ts';
import { call, toArray } from '../../contracts/tool-source.contract.ts';
import { suite, verifies } from '../../verifies.ts';

const common = await peer('grpc-js');
const MCP = 'mcp.stream.v1.Mcp';
const GOOGLE = 'model_context_protocol.Mcp';

suite('@grpc/grpc-js as the client of our server', common.reason, () => {
  verifies(
    ['S253', 'S254', 'S255'],
    'it lists, without any cursor, and calls; progress comes before the result',
    async () => {
      const js = await grpcJs(common);
      await using offered = await offerGrpc(ourCatalogue().source);
      const client = js.client(MCP, offered.url);
      const batches = await toArray(client['ListTools']!({}, js.metadata(), {}));
      const items = batches.flatMap(({ items: some }) => some as JsonObject[]);
      expect(items).toHaveLength(TOOL_COUNT);
      expect(JSON.parse(String(items[0]?.['input_schema_json']))).toMatchObject({ type: 'object' });
      expect(Object.keys(batches[0]!).filter((key) => /cursor/i.test(key))).toEqual([]);
      const request = { id: 'a', name: 'burst', arguments_json: '{"count":10}' };
      const events = await toArray(client['CallTool']!(request, js.metadata(), {}));
      expect(events).toHaveLength(11);
      expect(events.map(({ progress }) => (progress as JsonObject | null)?.['progress'])).toEqual([
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        undefined,
      ]);
      client.close();
    },
  );

  test('it gets statuses, with the code of MCP in the trailers, and needs its token', async () => {
    const js = await grpcJs(common);
    await using offered = await offerGrpc(ourCatalogue().source, { token: 'secret' });
    const client = js.client(MCP, offered.url);
    const fail = async (metadata: Record<string, string>): Promise<JsStatus> =>
      toArray(client['CallTool']!({ id: 'a', name: 'nope' }, js.metadata(metadata), {})).then(
        () => {
          throw new Error('no failure');
        },
        (error: unknown) => error as JsStatus,
      );
    expect(await fail({})).toMatchObject({ code: 16 });
    const unknown = await fail({ authorization: 'Bearer secret' });
    expect(unknown).toMatchObject({
      code: 5,
      details: 'unknown tool "nope"; list the tools for their names',
    });
    expect(unknown.metadata.get('mcp-error-code')).toEqual(['-32602']);
    client.close();
  });

  test('its cancel and its deadline reach the handler', async () => {
    const js = await grpcJs(common);
    for (const end of ['cancel', 'deadline']) {
      const { source, slow } = ourCatalogue();
      await using offered = await offerGrpc(source);
      const client = js.client(MCP, offered.url);
      const options = end === 'deadline' ? { deadline: Date.now() + 200 } : {};
      const stream = client['CallTool']!({ id: 'a', name: 'slow' }, js.metadata(), options);
      const ended = toArray(stream).catch((error: JsStatus) => error.code);
      await slow.started;
      if (end === 'cancel') stream.cancel();
      await slow.aborted;
      expect(await ended).toBe(end === 'cancel' ? 1 : 4);
      client.close();
    }
  });

  test("it speaks Google's paths", async () => {
    const js = await grpcJs(common);
    await using offered = await offerGrpc(ourCatalogue().source);
    const client = js.client(GOOGLE, offered.url);
    const ask = (method: string, request: JsonObject): Promise<JsonObject> =>
      new Promise((resolve, reject) => {
        client[method]!(request, js.metadata(), {}, (error, value) =>
          error ? reject(error) : resolve(value!),
        );
      });
    const { tools } = (await ask('ListTools', {})) as { tools: JsonObject[] };
    expect(tools).toHaveLength(TOOL_COUNT);
    const result = await ask('CallTool', { request: { name: 'blocks' } });
    expect(result).toMatchObject({
      content: [
        { text: { text: 'a' } },
        { image: { mime_type: 'image/png' } },
        { audio: { mime_type: 'audio/wav' } },
        { embedded_resource: { contents: { uri: 'file:///a', text: 'b' } } },
        { resource_link: { uri: 'file:///b', name: 'b' } },
      ],
    });
    expect(result['content']).toHaveLength(BLOCKS.length);
    await expect(ask('CallTool', { request: { name: 'nope' } })).rejects.toMatchObject({ code: 5 });
    await expect(ask('ListPrompts', {})).rejects.toMatchObject({ code: 12 });
    client.close();
  });

  test('it finds the server healthy', async () => {
    const js = await grpcJs(common);
    await using offered = await offerGrpc(ourCatalogue().source, { token: 'secret' });
    const client = js.client('grpc.health.v1.Health', offered.url);
    const check = (service: string): Promise<unknown> =>
      new Promise((resolve) => {
        client['Check']!({ service }, js.metadata(), {}, (error, value) =>
          resolve(error?.code ?? value?.['status']),
        );
      });
    expect(await check(MCP)).toBe('SERVING');
    expect(await check('nothing')).toBe(5);
    client.close();
  });
});

suite('@grpc/grpc-js as the server of our client', common.reason, () => {
  test("we dial a server that has only Google's service", async () => {
    const js = await grpcJs(common);
    type Done = (error: unknown, value?: JsonObject) => void;
    const server = await js.serve(GOOGLE, {
      ListTools: (_: unknown, done: Done) =>
        done(null, {
          tools: [
            {
              name: 'echo',
              description: 'Echoes',
              input_schema: { fields: { type: { stringValue: 'object' } } },
              annotations: { read_only_hint: true },
            },
          ],
        }),
      CallTool: ({ request: { request } }: JsServerCall, done: Done) =>
        (request as JsonObject)['name'] === 'echo'
          ? done(null, {
              content: [
                { text: { text: 'said' } },
                { image: { data: Buffer.from('x'), mime_type: 'image/png' } },
                { resource_link: { uri: 'file:///b', name: 'b' } },
              ],
              is_error: true,
            })
          : done({ code: 5, details: 'no such tool' }),
      ReadResource: ({ request }: JsServerCall, done: Done) =>
        done(null, { resource: [{ uri: request['uri'], text: 'read' }] }),
      GetPrompt: ({ request }: JsServerCall, done: Done) =>
        done(null, {
          description: 'asks',
          messages: [
            { role: 'ROLE_ASSISTANT', text: { text: JSON.stringify(request['arguments']) } },
          ],
        }),
      Complete: (_: unknown, done: Done) => done(null, { values: ['a', 'b'], has_more: true }),
    });
    await using far = await dialGrpc({ url: server.url });
    expect(await toArray(far.listTools())).toEqual([
      {
        name: 'echo',
        description: 'Echoes',
        inputSchema: { type: 'object' },
        annotations: {
          readOnlyHint: true,
          destructiveHint: false,
          idempotentHint: false,
          openWorldHint: false,
        },
      },
    ]);
    expect(await toArray(far.callTool(call('echo', { a: 1 })))).toEqual([
      {
        type: 'result',
        result: {
          content: [
            { type: 'text', text: 'said' },
            { type: 'image', data: 'eA==', mimeType: 'image/png' },
            { type: 'resource_link', uri: 'file:///b', name: 'b' },
          ],
          isError: true,
        },
      },
    ]);
    await expect(toArray(far.callTool(call('nope')))).rejects.toMatchObject({ code: 'not_found' });
    expect(await toArray(far.readResource!('file:///a'))).toEqual([
      { uri: 'file:///a', text: 'read' },
    ]);
    expect(await far.getPrompt!('p', { who: 'me' })).toMatchObject({
      description: 'asks',
      messages: [{ role: 'assistant', content: { type: 'text', text: '{"who":"me"}' } }],
    });
    expect(
      await far.complete!({
        ref: { type: 'ref/prompt', name: 'p' },
        argument: { name: 'who', value: '' },
      }),
    ).toEqual({ completion: { values: ['a', 'b'], hasMore: true } });
    expect(await toArray(far.listPrompts!())).toEqual([]); // not implemented there
    server.stop();
  });

  test('we list and call it, get its errors, and breaking out of a loop cancels its call', async () => {
    const js = await grpcJs(common);
    let left = (): void => {};
    const cancelled = new Promise<void>((resolve) => (left = resolve));
    const server = await js.serve(MCP, {
      Discover: (_: unknown, done: (error: unknown, value: JsonObject) => void) =>
        done(null, { name: 'js', version: '1', methods: ['ListTools', 'CallTool'] }),
      ListTools(server: JsServerCall) {
        for (let n = 0; n < 3; n += 1)
          server.write({ items: [{ name: `t${n}`, input_schema_json: '{"type":"object"}' }] });
        server.end();
      },
      CallTool(server: JsServerCall) {
        if (server.request['name'] === 'wait') {
          server.on('cancelled', left);
          server.write({ progress: { progress: 1 } });
          return;
        }
        if (server.request['name'] === 'echo') {
          server.write({ result: { content: [{ text: server.request['arguments_json'] }] } });
          return server.end();
        }
        const metadata = js.metadata({ 'mcp-error-code': '-32055' });
        server.emit('error', { code: 9, details: 'out of tea', metadata });
      },
    });
    await using far = await dialGrpc({ url: server.url });
    expect(far.info).toEqual({ name: 'js', version: '1' });
    expect((await toArray(far.listTools())).map(({ name }) => name)).toEqual(['t0', 't1', 't2']);
    expect(await toArray(far.callTool(call('echo', { a: 1 })))).toEqual([
      { type: 'result', result: { content: [{ type: 'text', text: '{"a":1}' }] } },
    ]);
    await expect(toArray(far.callTool(call('fail')))).rejects.toMatchObject({
      code: 'server',
      message: 'out of tea',
    });
    for await (const event of far.callTool(call('wait'))) {
      expect(event).toEqual({ type: 'progress', progress: 1 });
      break;
    }
    await cancelled;
    server.stop();
  });
});

const buf = await peer('protobuf');

suite('buf curl, a client in Go that knows our services by reflection', buf.reason, () => {
  test('it lists services, lists tools and calls one', async () => {
    await using offered = await offerGrpc(ourCatalogue().source);
    const url = offered.url.replace('grpc:', 'http:');
    const curl = async (...args: string[]): Promise<string> => {
      const flags = ['curl', '--protocol', 'grpc', '--http2-prior-knowledge'];
      const bin = join(buf.path, 'node_modules', '.bin', 'buf');
      return (await promisify(execFile)(bin, [...flags, ...args])).stdout;
    };
    expect(await curl('--list-services', url)).toContain(MCP);
    const listed = JSON.parse(await curl(`${url}/${MCP}/ListTools`, '-d', '{}')) as JsonObject;
    expect(listed['items']).toHaveLength(TOOL_COUNT);
    const request = '{"id":"a","name":"echo","argumentsJson":"{\\"text\\":\\"hi\\"}"}';
    expect(JSON.parse(await curl(`${url}/${MCP}/CallTool`, '-d', request))).toEqual({
      result: { content: [{ text: 'hi' }] },
    });
  });
});
