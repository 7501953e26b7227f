import { describe, expect, test } from 'vitest';
import { advance } from '../../event/fold/advance.ts';
import type { Entry, Snapshot, TaskEvent } from '../../event/types.ts';
import { CheckpointFold, decodeCheckpoint, encodeCheckpoint } from '../../task/log/checkpoints.ts';
import { a2aEncoder, type TextOptions } from './stream-encoder.ts';

const LONG = 'x'.repeat(30_000);
const say = (delta: string): TaskEvent => ({ type: 'text.delta', id: 't', delta });
const retry: TaskEvent = {
  type: 'retry',
  attempt: 1,
  discard: true,
  error: { code: 'server', message: 'no answer', retryable: true },
};
const step: TaskEvent = { type: 'step.started', step: 1 };
const start: TaskEvent = { type: 'run.started', turn: 'm' };
const end: TaskEvent = { type: 'run.finished', outcome: 'completed', text: '' };

const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm' };

const logOf = (events: readonly TaskEvent[]): Entry[] =>
  [{ type: 'turn.submitted', turn: { ...turn, parts: [{ text: LONG }] } } as const, ...events].map(
    (event, index) => ({ ...event, seq: index + 1, at: 1000 + index }) as Entry,
  );

const foldOf = (entries: readonly Entry[]): Snapshot =>
  entries.reduce<Snapshot | undefined>(advance, undefined) as Snapshot;

const LOGS: Readonly<Record<string, readonly TaskEvent[]>> = {
  'a long text': [start, say(LONG), say(LONG), end],
  'a retry of the first step': [start, say('abc'), retry, say(LONG), say('d'), end],
  'a retry behind a short step': [start, say('abc'), step, say(LONG), retry, say(LONG), end],
  'a retry behind a long step': [start, say(LONG), step, say('abc'), retry, say('d'), end],
  'a retry and nothing behind it': [start, say('abc'), step, say(LONG), retry, end],
  'a run that begins anew': [
    start,
    say(LONG),
    { ...start, attempt: 2, discard: true },
    say('d'),
    end,
  ],
  'a run that goes on': [
    start,
    say(LONG),
    step,
    { ...start, attempt: 2 },
    say('d'),
    retry,
    say('e'),
    end,
  ],
  'a failure that has its reason in the text': [
    start,
    say(LONG),
    { type: 'run.finished', outcome: 'failed', text: '' },
  ],
  artifacts: [
    start,
    { type: 'artifact', artifactId: 'a', name: 'n', parts: [{ text: LONG }] },
    { type: 'artifact', artifactId: 'a', append: true, last: true, parts: [{ text: 'end' }] },
    end,
  ],
  'a question, its answer and another turn': [
    start,
    say(LONG),
    { type: 'input.required', request: { id: 'q', kind: 'question', message: 'Which?' } },
    {
      type: 'turn.submitted',
      turn: {
        ...turn,
        messageId: 'm2',
        parts: [{ text: LONG }],
        answers: [{ id: 'q', action: 'accept', content: LONG }],
      },
    },
    end,
    { type: 'run.started', turn: 'm2' },
    say('d'),
    end,
  ],
};

const OPTIONS: readonly TextOptions[] = [
  {},
  { chars: 200 },
  { pattern: 'artifact' },
  { pattern: 'artifact', chars: 50_000 },
  { pattern: 'status' },
];

describe('a stream that drops what its client has', () => {
  for (const [name, events] of Object.entries(LOGS))
    test(`sends the same as one that keeps all: ${name}`, () => {
      const entries = logOf(events);
      for (const options of OPTIONS) {
        const [whole, slim] = [a2aEncoder(options), a2aEncoder(options)];
        for (const entry of entries) {
          if (slim.lacks(entry)) slim.restore(foldOf(entries.slice(0, entry.seq - 1)));
          const [short, expected] = [slim, whole].map((each) => JSON.stringify(each.encode(entry)));
          expect(short === expected, `entry ${entry.seq}, ${JSON.stringify(options)}`).toBe(true);
          slim.forget();
        }
      }
    });

  test('keeps only the beginning of a text, and no artifact', () => {
    const encoder = a2aEncoder();
    const open = [start, say(LONG), { type: 'artifact', artifactId: 'a', parts: [{ text: LONG }] }];
    for (const entry of logOf(open as TaskEvent[])) {
      encoder.encode(entry);
      encoder.forget();
    }
    expect(JSON.stringify(encoder.snapshot).length).toBeLessThan(2500);
  });
});

test('a slim snapshot has the members of a complete one in the same order, so one shape serves both', () => {
  const encoder = a2aEncoder();
  const entries = logOf([start, say('abc')]);
  for (const entry of entries) encoder.encode(entry);
  encoder.forget();
  expect(Object.keys(encoder.snapshot ?? {})).toEqual(Object.keys(foldOf(entries)));
});

test.each(Object.entries(LOGS))(
  'a stream that begins at a checkpoint sends the same: %s',
  (_, events) => {
    const entries = logOf(events);
    const encoded = (encoder = a2aEncoder(), rest = entries): readonly unknown[] =>
      rest.map((entry, at) => {
        if (encoder.lacks(entry))
          encoder.restore(foldOf(entries.slice(0, entries.length - rest.length + at)));
        return encoder.encode(entry);
      });
    const all = encoded();
    const fold = new CheckpointFold(foldOf(entries.slice(0, 1)));
    let seeks = 0;
    for (let at = 1; at < entries.length; at++) {
      fold.advance(entries[at] as Entry);
      const checkpoint = fold.checkpoint();
      if (!checkpoint) continue;
      const [, value] = encodeCheckpoint(checkpoint) ?? [];
      const encoder = a2aEncoder();
      expect(encoder.seek(decodeCheckpoint(JSON.parse(JSON.stringify(value))) as never)).toBe(true);
      expect(encoded(encoder, entries.slice(at + 1))).toEqual(all.slice(at + 1));
      seeks++;
    }
    expect(seeks).toBeGreaterThan(0);
  },
);
