import { describe, expect, test } from 'vitest';
import type { InputRequest } from '../ask.ts';
import { answersTo, postedFilePart } from './posted-turn.ts';

const answer = (kind: InputRequest['kind'], content: unknown): unknown =>
  answersTo([{ id: 'c/ok', kind, callId: 'c' }], [{ id: 'c', content }])[0];

describe('a posted answer', () => {
  const question = (id: string, callId?: string): InputRequest => ({
    id,
    kind: 'question',
    ...(callId !== undefined && { callId }),
  });
  test.each<[string, InputRequest, readonly string[], string | undefined]>([
    ['its own id before that of its call', question('c/1'), ['c', 'c/1'], 'c/1'],
    ['the first of its calls', question('a/b/c'), ['a/b', 'x', 'a'], 'a/b'],
    ['no other call than the one it names', question('a/b/c', 'x'), ['a/b', 'x', 'a'], 'x'],
    ['the call that it names', question('q', 'x'), ['y', 'x'], 'x'],
    ['no call whose id only begins alike', question('call/1'), ['ca', 'call/'], undefined],
    ['the first of two that are equal', question('q'), ['q', 'q'], 'q'],
  ])('answers a question by %s', (_, request, ids, expected) => {
    const given = ids.map((id, index) => ({ id, content: `${id} ${index}` }));
    const [found] = answersTo([request], given);
    expect(found?.content).toBe(
      expected === undefined ? undefined : `${expected} ${ids.indexOf(expected)}`,
    );
  });

  test('is read once, however many questions are open', () => {
    let reads = 0;
    const given = Array.from({ length: 1000 }, (_, n) => ({
      get id() {
        reads++;
        return `old${n}`;
      },
    }));
    const pending = Array.from({ length: 1000 }, (_, n) => question(`call/${n}`));
    expect(answersTo(pending, given)).toEqual([]);
    expect(reads).toBe(1000);
  });
});

describe('an approval that a front end posts', () => {
  test.each<[unknown, object]>([
    [true, { action: 'accept' }],
    [{ approved: true }, { action: 'accept' }],
    ['{"approved":true}', { action: 'accept' }],
    ['Yes, confirmed.', { action: 'accept' }],
    [{ editedArgs: { a: 1 } }, { action: 'accept', content: { a: 1 } }],
    [false, { action: 'decline' }],
    [{ approved: false, editedArgs: { a: 1 } }, { action: 'decline' }],
    ['No, denied.', { action: 'decline' }],
  ])('%j is a decision', (content, expected) => {
    expect(answer('approval', content)).toMatchObject({ id: 'c/ok', ...expected });
  });

  test.each([
    undefined,
    null,
    '',
    'maybe later',
    'ok, but not now',
    {},
    { approved: 'perhaps' },
    { approved: 'perhaps', editedArgs: { a: 1 } },
    { approved: null, editedArgs: { a: 1 } },
    1,
  ])('%j is refused, since it is neither yes nor no', (content) => {
    expect(() => answer('approval', content)).toThrow('expected {"approved": true}');
  });

  test('JSON that is nested too deeply is not parsed, so it approves nothing', () => {
    const deep = `${'['.repeat(600)}${']'.repeat(600)}`;
    const content = `{"approved":true,"editedArgs":{"a":${deep}}}`;
    expect(() => answer('approval', content)).toThrow('expected {"approved": true}');
  });

  test('an action of the protocol needs no text', () => {
    const pending = [{ id: 'q', kind: 'approval' as const }];
    expect(answersTo(pending, [{ id: 'q', action: 'cancel' }])).toEqual([
      { id: 'q', action: 'cancel' },
    ]);
  });
});

test('the answer to a question is the posted content', () => {
  expect(answer('question', 'maybe later')).toEqual({
    id: 'c/ok',
    action: 'accept',
    content: 'maybe later',
  });
});

test('one yes to a call does not decide several approvals of it', () => {
  const pending = ['c/pay', 'c/mail'].map((id) => ({ id, kind: 'approval' as const, callId: 'c' }));
  expect(() => answersTo(pending, [{ id: 'c', content: true }])).toThrow(
    expect.objectContaining({ code: 'invalid' }),
  );
  const each = pending.map(({ id }, index) => ({ id, content: index === 0 }));
  expect(answersTo(pending, each).map(({ action }) => action)).toEqual(['accept', 'decline']);
});

test('a yes to a call does not decide the question of a call whose id starts with that id', () => {
  const pending = [{ id: 'c/x/ok', kind: 'approval' as const, callId: 'c/x' }];
  expect(answersTo(pending, [{ id: 'c', content: true }])).toEqual([]);
  expect(answersTo(pending, [{ id: 'c/x', content: true }])).toHaveLength(1);
});

describe('a file that a front end posts', () => {
  const bytes = new Uint8Array([1, 2, 3]);

  test.each([
    ['data:image/png;base64,AQID', { bytes, mediaType: 'image/png' }],
    ['data:image/png;name=a.png;base64,AQID', { bytes, mediaType: 'image/png' }],
    ['data:;base64,AQID', { bytes, mediaType: 'application/octet-stream' }],
    ['data:text/plain,hello', { url: 'data:text/plain,hello' }],
    ['https://example.com/;base64,AQID', { url: 'https://example.com/;base64,AQID' }],
  ])('%s is read', (url, part) => expect(postedFilePart(url)).toEqual(part));

  test('a data URL without a comma is read in linear time', () => {
    // A pattern took 67 s for 80,000 characters; this one would take hours.
    const url = `data:${'a'.repeat(8_000_000)}`;
    expect(postedFilePart(url)).toEqual({ url });
    expect(postedFilePart(`data:${';base64'.repeat(1_000_000)}`)).toHaveProperty('url');
  });
});
