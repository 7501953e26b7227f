import { expect, test } from 'vitest';
import type { ToolResult } from '../../../mcp/types.ts';
import { toOutcome } from './tool-outcome.ts';

const outcomeOf = (content: unknown, more: object = {}) =>
  toOutcome('s', { content, ...more } as ToolResult);

const size = (value: unknown): number => JSON.stringify(value).length;

test('a result within the limits is unchanged', () => {
  const content = [
    { type: 'text', text: 'a' },
    { type: 'image', mimeType: 'image/png', data: 'AA==' },
  ];
  expect(outcomeOf(content).content).toEqual([
    { type: 'text', text: 'a' },
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } },
  ]);
});

test.each([
  ['one long text', [{ type: 'text', text: 'x'.repeat(40_000_000) }], {}],
  ['many texts', Array.from({ length: 100_000 }, () => ({ type: 'text', text: 'hello' })), {}],
  ['a long error', [{ type: 'text', text: 'x'.repeat(40_000_000) }], { isError: true }],
  ['a resource', [{ type: 'resource', resource: { uri: 'a', text: 'x'.repeat(1e7) } }], {}],
  ['structured content', [], { structuredContent: { a: 'x'.repeat(1e7) } }],
])('the model does not get all of %s', (_, content, more) => {
  const outcome = outcomeOf(content, more);
  expect(size(outcome.content)).toBeLessThan(200_000);
  expect(JSON.stringify(outcome.content)).toMatch(/more characters|only the first 1000 parts/);
});

test('images beyond the limit are omitted', () => {
  const image = { type: 'image', mimeType: 'image/png', data: 'A'.repeat(6 * 1024 * 1024) };
  expect(outcomeOf([image, image]).content).toMatchObject([
    { type: 'image' },
    { type: 'text', text: '(an image of 6291456 characters was omitted)' },
  ]);
});

test('parts of the wrong type do not reach the model', () => {
  const deep: unknown = JSON.parse('['.repeat(50_000) + ']'.repeat(50_000));
  const parts = [
    null,
    1,
    { type: 'image', mimeType: deep, data: 'x' },
    { type: 'text', text: deep },
  ];
  const { content, isError } = outcomeOf(parts);
  expect(isError).toBe(false);
  expect(size(content)).toBeLessThan(1000);
});
