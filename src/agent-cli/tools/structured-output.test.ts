import { describe, expect, test } from 'vitest';
import { structuredTool } from './structured-output.ts';

const signal = new AbortController().signal;

async function isAccepted(schema: object, input: object): Promise<boolean> {
  const tool = await structuredTool({ type: 'object', ...schema });
  const run = { id: 'x', signal, progress: () => {} };
  return !(await tool.call({ ...input }, run)).isError;
}

const PAIR = [{ type: 'string' }, { type: 'number' }];

describe('the output is checked by the draft of its schema', () => {
  const today = { properties: { pair: { type: 'array', prefixItems: PAIR, items: false } } };
  const draft07 = {
    properties: { pair: { type: 'array', items: PAIR, additionalItems: false } },
  };

  test.each([
    ['2020-12, by default', today],
    ['2020-12', { $schema: 'https://json-schema.org/draft/2020-12/schema', ...today }],
    ['draft-07', { $schema: 'http://json-schema.org/draft-07/schema#', ...draft07 }],
  ])('%s', async (_, schema) => {
    expect(await isAccepted(schema, { pair: ['a', 1] })).toBe(true);
    expect(await isAccepted(schema, { pair: [1, 'a'] })).toBe(false);
    expect(await isAccepted(schema, { pair: ['a', 1, 2] })).toBe(false);
  });
});

test('an unknown $schema is refused by name', async () => {
  const $schema = 'https://example.com/my-dialect';
  await expect(structuredTool({ $schema, type: 'object' })).rejects.toMatchObject({
    code: 'invalid',
    message: expect.stringContaining($schema) as string,
  });
});

test('an invalid schema is refused', async () => {
  await expect(structuredTool({ type: 'strange' })).rejects.toMatchObject({ code: 'invalid' });
});

test('an asynchronous schema, which would accept everything, is refused', async () => {
  await expect(structuredTool({ $async: true, type: 'object' })).rejects.toMatchObject({
    code: 'invalid',
  });
});
