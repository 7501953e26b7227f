import { expect, test } from 'vitest';
import { CallResult } from './call-result.ts';

test('chunks of an artifact are one text, however many there are', () => {
  const result = new CallResult();
  const common = { type: 'artifact', artifactId: 'report' } as const;
  result.receive({ ...common, parts: [{ text: 'One ' }] });
  for (const text of ['two ', 'three.'])
    result.receive({ ...common, append: true, parts: [{ text }] });
  result.receive({ ...common, append: true, parts: [{ data: { mg: 5 } }, { text: 'End.' }] });
  expect(result.result).toEqual({
    content: [
      { type: 'text', text: 'One two three.' },
      { type: 'text', text: '{"mg":5}' },
      { type: 'text', text: 'End.' },
    ],
    structuredContent: { mg: 5 },
  });
});

test('an artifact that is sent again replaces the first', () => {
  const result = new CallResult();
  for (const text of ['old', 'new'])
    result.receive({ type: 'artifact', artifactId: 'report', parts: [{ text }] });
  expect(result.result).toEqual({ content: [{ type: 'text', text: 'new' }] });
});
