import { expect, test } from 'vitest';
import { soakClients } from '../support/mcp/client-soak.ts';

// `scripts/mcp-soak.ts` does the same with 100,000 clients.
test.each([
  ['a server', false],
  ['a bridge', true],
])('%s holds nothing for clients that disconnected', { timeout: 120_000 }, async (_, bridged) => {
  const { before, after, refused } = await soakClients({ clients: 120, bridged });
  expect(refused).toBe(0);
  expect({ ...after, heapMb: 0 }).toEqual({ ...before, heapMb: 0 });
});
