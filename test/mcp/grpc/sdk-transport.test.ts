import { expect, test } from 'vitest';
import {
  dialGrpc,
  GrpcClientTransport,
  offerGrpc,
  sdkTunnel,
} from '../../../src/mcp/grpc/index.ts';
import { serveMessages } from '../../../src/mcp/json-rpc/server/serve-messages.ts';
import { createRegistry } from '../../../src/mcp/registry/registry.ts';
import { tool } from '../../../src/mcp/registry/tool.ts';
import { Disposer } from '../../../src/stream/disposer.ts';
import { suite } from '../../verifies.ts';
import { clientV1, clientV2, missing, serverV1, serverV2 } from '../../support/mcp/mcp-sdk.ts';

const CLIENTS = { v1: clientV1, v2: clientV2 };
const SERVERS = { v1: serverV1, v2: serverV2 };
const empty = createRegistry({ name: 'empty' });

suite('mcp-sdk', missing, () => {
  for (const [ours, client] of Object.entries(CLIENTS)) {
    for (const [theirs, server] of Object.entries(SERVERS))
      test(`a client of the SDK ${ours} and a server of ${theirs} speak over gRPC`, async () => {
        await using scope = new Disposer();
        const create = () => {
          const { server: made, add } = server();
          add('hi', 'Greets', {}, async () => ({ content: [{ type: 'text', text: 'hello' }] }));
          return made;
        };
        const { url } = scope.use(await offerGrpc(empty, { tunnel: sdkTunnel(create) }));
        // Two clients at the same time: each has its own server object.
        for (const each of [client(), client()]) {
          await each.connect(new GrpcClientTransport({ url }));
          const { tools } = await each.listTools();
          expect(tools.map(({ name }) => name)).toEqual(['hi']);
          expect(await each.callTool({ name: 'hi', arguments: {} })).toMatchObject({
            content: [{ type: 'text', text: 'hello' }],
          });
          await each.close();
        }
      });

    test(`a client of the SDK ${ours} calls our tools over gRPC`, async () => {
      await using scope = new Disposer();
      const work = tool('work', 'Works', {}, async (_, ctx) => {
        for (const done of [1, 2, 3]) await ctx.progress(done, 3);
        return 'worked';
      });
      const source = createRegistry({ name: 'ours', tools: [work] });
      const { url } = scope.use(
        await offerGrpc(source, { tunnel: (transport) => serveMessages(source, transport) }),
      );
      const official = client();
      await official.connect(new GrpcClientTransport({ url }));
      expect(await official.callTool({ name: 'work', arguments: {} })).toMatchObject({
        content: [{ type: 'text', text: 'worked' }],
      });
      await official.close();
      // The typed service is on the same port.
      const dialled = scope.use(await dialGrpc({ url }));
      expect(dialled.info.name).toBe('ours');
    });
  }

  test('a server that cannot be reached closes the transport with an error', async () => {
    const transport = new GrpcClientTransport({ url: 'grpc://127.0.0.1:1' });
    const errors: Error[] = [];
    const closed = new Promise<void>((resolve) => (transport.onclose = resolve));
    transport.onerror = (error) => errors.push(error);
    await transport.start();
    await closed;
    expect(errors).toHaveLength(1);
    await transport.close();
  });
});
