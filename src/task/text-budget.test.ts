import { expect, test } from 'vitest';
import { turnOf } from '../../test/support/arbitraries.ts';
import { advance } from '../event/fold/advance.ts';
import type { Snapshot, Turn } from '../event/types.ts';
import { charsOf, snapshotChars } from './text-budget.ts';

const LONG = 'x'.repeat(100_000);

const submitted = (more: Partial<Turn>): Snapshot =>
  advance(undefined, { type: 'turn.submitted', turn: turnOf('m', more), seq: 1, at: 1 });

test.for([
  ['data of a part', submitted({ parts: [{ data: { long: LONG } }] })],
  ['metadata of a part', submitted({ parts: [{ text: 'hi', metadata: { long: LONG } }] })],
  ['metadata of a turn', submitted({ metadata: { long: LONG } })],
  [
    'metadata of an artifact',
    { ...submitted({}), artifacts: [{ artifactId: 'a', metadata: { LONG }, parts: [] }] },
  ],
  ['turns that wait', { ...submitted({}), unserved: [turnOf('n', { parts: [{ text: LONG }] })] }],
  ['answers', { ...submitted({}), answers: [{ id: 'q', action: 'accept', content: LONG }] }],
  ['open calls', { ...submitted({}), calls: [{ callId: 'c', name: 'n', args: { LONG } }] }],
  [
    'events from outside',
    {
      ...submitted({}),
      waits: [{ id: 'w', kind: 'event', answer: { id: 'w', action: 'accept', content: [LONG] } }],
    },
  ],
] satisfies readonly (readonly [string, Snapshot])[])(
  'a snapshot is as long as its %s',
  ([, snapshot]) => {
    expect(snapshotChars(snapshot)).toBeGreaterThan(100_000);
    expect(snapshotChars(snapshot)).toBeLessThan(102_000);
  },
);

test('an artifact without parts counts, too, so that a run cannot have any number of them', () => {
  const empty = { type: 'artifact', artifactId: 'a', parts: [] } as const;
  expect(charsOf(empty)).toBeGreaterThan(100);
  // The pieces of a streamed artifact are as cheap as those of a text.
  expect(charsOf({ ...empty, append: true, parts: [{ text: 'word' }] })).toBe(4);
});
