import { expect, test } from 'vitest';
import { dialMessages } from '../json-rpc/client/dial-messages.ts';
import { serveMessages } from '../json-rpc/server/serve-messages.ts';
import { createRegistry } from '../registry/registry.ts';
import { tool } from '../registry/tool.ts';
import { call, toArray } from '../../../test/contracts/tool-source.contract.ts';
import { offerGrpc } from './server/offer-grpc.ts';
import { openTunnel } from './tunnel.ts';

// The end of the client's stream disposes the server's side twice: where the reading ends, and
// where the route ends. Both must resolve, or every such client leaves its server side behind.
test('a client that disconnects during a call leaves nothing on the server', async () => {
  let started = (): void => {};
  const running = new Promise<void>((resolve) => (started = resolve));
  const source = createRegistry({
    name: 'slow',
    tools: [
      tool('wait', 'Waits for its cancellation', {}, async (_, { signal }) => {
        started();
        await new Promise<void>((resolve) =>
          signal.addEventListener('abort', () => setImmediate(resolve)),
        );
        return 'cancelled';
      }),
    ],
  });
  let disposed = (): void => {};
  const serverIsDone = new Promise<void>((resolve) => (disposed = resolve));
  await using offered = await offerGrpc(source, {
    tunnel: (transport) => {
      const serving = serveMessages(source, transport);
      return {
        async [Symbol.asyncDispose]() {
          await serving[Symbol.asyncDispose]();
          disposed();
        },
      };
    },
  });
  const client = await dialMessages(openTunnel({ url: offered.url }));
  const called = toArray(client.callTool(call('wait'))).then(
    () => 'answered',
    () => 'ended',
  );
  await running;
  await client[Symbol.asyncDispose]();
  expect(await called).toBe('ended');
  await serverIsDone;
});
