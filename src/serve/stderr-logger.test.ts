import { expect, test, vi } from 'vitest';
import { stderrLogger } from './stderr-logger.ts';

test('control characters of a message, a field or a stack do not reach stderr', () => {
  const written: string[] = [];
  const spy = vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    written.push(String(text));
    return true;
  });
  try {
    const evil = 'a\u001b[2Jb\u009b2Jc\u007f';
    stderrLogger().error(evil, { name: evil, stack: `Error: ${evil}\n    at x` });
  } finally {
    spy.mockRestore();
  }
  // oxlint-disable-next-line no-control-regex
  expect(written.join('')).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
  expect(written.join('')).toContain('    at x');
});
