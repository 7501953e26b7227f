import { beforeAll, test } from 'vitest';
import setup from '../build.ts';
import { checkExample } from '../support/adapter-example.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';

// Runs the built examples.
beforeAll(setup);

for (const name of ['openai-agents', 'google-adk', 'mastra']) {
  const { reason } = await peer(name);
  suite(`the example ${name}`, reason, () => {
    test(`${name}, served, answers with the weather`, () => checkExample(name));
  });
}
