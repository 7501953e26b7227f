import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { startModelServer } from '../../test/support/model-server.ts';
import { checkExample, runExample } from '../../test/support/adapter-example.ts';
import { peer } from '../../test/peers.ts';
import { suite, verifies } from '../../test/verifies.ts';

test('the agent CLI, served, answers with the weather', () => checkExample('cli'), 60_000);

for (const name of ['ai-sdk', 'langgraph', 'anthropic']) {
  const { reason } = await peer(name);
  suite(`the example ${name}`, reason, () => {
    test(`${name}, served, answers with the weather`, () => checkExample(name), 60_000);
  });
}

verifies('S144', 'the example uses port 8003 unless another port is given', async () => {
  const other = createServer();
  // The port is taken, by this test or by another process: the example must report it.
  await new Promise((resolve) =>
    other.once('error', resolve).listen(8003, '127.0.0.1', () => resolve(undefined)),
  );
  const { code, output } = await runExample('cli', {});
  other.close();
  expect(code).not.toBe(0);
  expect(output).toContain('8003');
});

const { reason } = await peer('anthropic');
suite('anthropic', reason, () => {
  verifies(
    'S154',
    'the example calls claude-sonnet-4-6 with at most 1024 tokens and one user message',
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
  );
});
