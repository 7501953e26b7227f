import { expect, test } from 'vitest';
import { askFields } from './ask-fields.ts';

const FORM = {
  type: 'object',
  properties: {
    confirm: { type: 'boolean', title: 'Delete everything?' },
    size: { type: 'string', enum: ['S', 'M'] },
    count: { type: 'integer' },
    note: { type: 'string' },
  },
  required: ['confirm', 'size', 'count'],
};

const saying = (lines: readonly string[]) => {
  const left = [...lines];
  const prompts: string[] = [];
  return {
    prompts,
    read: async (prompt: string) => {
      prompts.push(prompt);
      return left.shift();
    },
  };
};

test('a form is filled in line by line, and an invalid line is asked for again', async () => {
  const { read, prompts } = saying(['wat', '', 'absolutely not', 'no', 'XL', 'M', '1.5', '2', '']);
  expect(await askFields(FORM, read)).toEqual({ confirm: false, size: 'M', count: 2 });
  expect(prompts[0]).toBe('Delete everything? (yes | no) > ');
  expect(prompts[1]).toBe('Invalid value. Delete everything? (yes | no) > ');
});

test('only a plain yes is a yes', async () => {
  const { read } = saying(['yes, but later', 'yes', 'S', '0', 'no']);
  expect(await askFields(FORM, read)).toEqual({ confirm: true, size: 'S', count: 0, note: 'no' });
});

test('the end of the input answers nothing', async () => {
  expect(await askFields(FORM, saying(['yes', 'S']).read)).toBeUndefined();
});
