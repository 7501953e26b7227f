import { describe, expect, test } from 'vitest';
import { MarkdownSlices } from '../../web/src/ui/markdown-slices.ts';
import { sourcesIn } from '../../web/src/state/cited-sources.ts';

const read = (text: string) => new MarkdownSlices(() => 0).read(text);

describe('Markdown of a model', () => {
  test('is one slice if it is short', () => {
    const [slice, more] = read('# Title\n\n- one\n\n- two\n');
    expect(more).toBeUndefined();
    expect(slice?.tokens?.map(({ type }) => type)).toContain('list');
  });

  test.each([
    ['lists in lists', '- '.repeat(20_000)],
    ['quotes in quotes', '>'.repeat(10_000)],
    ['numbers in numbers', '1. '.repeat(5000)],
    ['one line without end', '_a'.repeat(50_000)],
  ])('is shown unparsed where the parser would take too long: %s', (_what, bomb) => {
    const slices = read(`Before.\n\n${bomb}`);
    expect(slices.map(({ text }) => text).join('')).toBe(`Before.\n\n${bomb}`);
    expect(slices.at(-1)?.tokens).toBeUndefined();
  });

  test('is split at blank lines, and code stays in one slice', () => {
    const code = `\`\`\`js\n${'let a = 1;\n\n'.repeat(500)}\`\`\`\n\n`;
    const text = `${'A sentence of some words.\n\n'.repeat(500)}${code}${'More.\n\n'.repeat(5000)}`;
    const slices = read(text);
    expect(slices.length).toBeGreaterThan(2);
    expect(slices.map((slice) => slice.text).join('')).toBe(text);
    expect(slices.every(({ tokens }) => tokens)).toBe(true);
    const blocks = slices.flatMap(({ tokens }) => tokens ?? []);
    expect(blocks.filter(({ type }) => type === 'code')).toHaveLength(1);
  });

  test('is shown unparsed after the time budget is used', () => {
    let clock = 0;
    const slices = new MarkdownSlices(() => (clock += 200));
    const text = 'Words.\n\n'.repeat(20_000);
    const parsed = slices.read(text).map(({ tokens }) => tokens !== undefined);
    expect(parsed.slice(0, 2)).toEqual([true, true]);
    expect(parsed.slice(2)).not.toContain(true);
  });

  test('is parsed again only where it grew', () => {
    const slices = new MarkdownSlices(() => 0);
    const text = Array.from({ length: 20_000 }, (_, index) => `Word ${index}.\n\n`).join('');
    const before = slices.read(text);
    const after = slices.read(`${text}More.`);
    expect(after.length).toBeGreaterThan(5);
    for (const [index, slice] of before.slice(0, -1).entries()) expect(after[index]).toBe(slice);
  });
});

test('sources without a closing tag are skipped in linear time', () => {
  const open = '<source id="a">'.repeat(100_000);
  expect([...sourcesIn(open)]).toEqual([]);
  expect([...sourcesIn('<source '.repeat(100_000))]).toEqual([]);
  expect([...sourcesIn(`<source ${'a'.repeat(100_000)}>x</source>`)]).toEqual([]);
  expect([...sourcesIn('<source id="a" title="T">x</source> y <source id="b">z</source>')]).toEqual(
    [
      { id: 'a', title: 'T', text: 'x' },
      { id: 'b', title: 'b', text: 'z' },
    ],
  );
});
