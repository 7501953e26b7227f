import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { startModelServer } from '../../test/support/model-server.ts';
import { checkExample, runExample } from '../../test/support/adapter-example.ts';
import { peer } from '../../test/peers.ts';
import { suite, verifies } from '../../test/verifies.ts';

test('the agent CLI, served, tells the weather', () => checkExample('cli'), 60_000);

for (const name of ['ai-sdk', 'langgraph', 'anthropic']) {
  const { reason } = await peer(name);
  suite(`the example ${name}`, reason, () => {
    test(`${name}, served, tells the weather`, () => checkExample(name), 60_000);
  });
}

verifies(
  'S144',
  'the example takes port 8003 unless it is told otherwise',
  async () => {
    const other = createServer();
    // Whoever has the port, we or somebody else: the example must find it taken.
    await new Promise((resolve) =>
      other.once('error', resolve).listen(8003, '127.0.0.1', () => resolve(undefined)),
    );
    const { code, output } = await runExample('cli', {});
    other.close();
    expect(code).not.toBe(0);
    expect(output).toContain('8003');
  },
  60_000,
);

const { reason } = await peer('anthropic');
suite('anthropic', reason, () => {
  verifies(
    'S154',
    'the example asks claude-sonnet-4-6 for at most 1024 tokens with one user message',
    async () => {
      await using model = await startModelServer([{ text: 'Fine.' }]);
      const { output } = await runExample('anthropic', { PORT: '0', MODEL_URL: model.url });
      expect(output).toContain('COMPLETED: Fine.');
      expect(model.calls[0]?.body).toMatchObject({
        model: 'claude-sonnet-4-6',
        max_tokens: 1024,
        messages: [{ role: 'user' }],
      });
    },
    60_000,
  );
});
