import { expect, test } from 'vitest';
import type { ToolResult } from '../../../mcp/types.ts';
import { toOutcome } from './tool-outcome.ts';

const outcomeOf = (content: unknown, more: object = {}) =>
  toOutcome('s', { content, ...more } as ToolResult);

/** The first bytes of a PNG file. */
const PNG = 'iVBORw0KGgoA';

const size = (value: unknown): number => JSON.stringify(value).length;

test('a result within the limits is unchanged', () => {
  const content = [
    { type: 'text', text: 'a' },
    { type: 'image', mimeType: 'image/png', data: PNG },
  ];
  expect(outcomeOf(content).content).toEqual([
    { type: 'text', text: 'a' },
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
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
  const image = { type: 'image', mimeType: 'image/png', data: PNG.padEnd(6 * 1024 * 1024, 'A') };
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

test.each([
  ['SVG', 'image/svg+xml', btoa('<svg/>')],
  ['bytes of no image', 'image/png', btoa('hello')],
  ['text that is not base64', 'image/png', `${PNG}<>`],
  ['nothing', 'image/png', ''],
])('an image that models refuse becomes a note: %s', (_, mimeType, data) => {
  // A model API refuses the complete history for one such image, in every later turn.
  const { content } = outcomeOf([{ type: 'image', mimeType, data }]);
  expect(content).toMatchObject([{ type: 'text' }]);
  expect(JSON.stringify(content)).toContain('PNG, JPEG, GIF and WebP');
});

test.each([
  ['/9j/4AAQ', 'image/jpeg'],
  ['R0lGODlh', 'image/gif'],
  ['UklGRgAAAABXRUJQ', 'image/webp'],
])('an image has the type of its bytes, whatever the server says: %s', (data, media_type) => {
  expect(outcomeOf([{ type: 'image', mimeType: 'image/png', data }]).content).toEqual([
    { type: 'image', source: { type: 'base64', media_type, data } },
  ]);
});
