import { describe, expect, test } from 'vitest';
import { LIFECYCLE_RULES } from './lifecycle-rules.ts';
import { readSource, sourceFiles } from './source.ts';

const written = sourceFiles().filter((file) => !file.includes('/gen/'));

describe('every file of src keeps the rules of life and death', () => {
  test.each(Object.entries(LIFECYCLE_RULES))('%s', (_, rule) => {
    expect(written.flatMap((file) => rule(file, readSource(file)))).toEqual([]);
  });
});
