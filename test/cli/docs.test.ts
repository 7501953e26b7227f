import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { pages } from '../../scripts/generate-cli-docs.ts';

test('docs/reference/cli.md and the rules in docs/reference/trace-format.md are what the code says', async () => {
  for (const [file, text] of await pages()) {
    expect(readFileSync(file, 'utf8'), 'run: npx tsx scripts/generate-cli-docs.ts').toBe(text);
  }
});
