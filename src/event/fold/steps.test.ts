import fc from 'fast-check';
import { expect, test } from 'vitest';
import { advance, needsRun, nextTurn } from './advance.ts';
import { isFinal } from './entry-rules.ts';
import { dueAt } from './steps.ts';
import { recoverRun } from './recover-run.ts';
import { decodeEntry, encodeEntry } from '../entry-codec.ts';
import type { Entry, Snapshot, TaskEvent } from '../types.ts';

const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [{ text: 'hi' }] };
const IDS = ['a', 'b', 'c'] as const;

const anyStep: fc.Arbitrary<TaskEvent> = fc.oneof(
  fc.record({
    type: fc.constant('step.stored' as const),
    id: fc.constantFrom(...IDS),
    kind: fc.constantFrom('step' as const, 'sleep' as const, 'event' as const),
    status: fc.constantFrom(
      'started' as const,
      'waiting' as const,
      'retrying' as const,
      'completed' as const,
      'failed' as const,
    ),
    until: fc.integer({ min: 1, max: 100 }),
  }),
  fc.constant<TaskEvent>({ type: 'run.suspended' }),
  fc.constant<TaskEvent>({ type: 'cancel.requested' }),
  fc.constant<TaskEvent>({ type: 'text.delta', id: 'x', delta: 'hi' }),
  fc.integer({ min: 1, max: 9 }).map((attempt): TaskEvent => ({
    type: 'run.started',
    turn: 'm',
    attempt,
  })),
  fc
    .constantFrom('completed' as const, 'failed' as const, 'canceled' as const)
    .map((outcome): TaskEvent => ({ type: 'run.finished', outcome, text: '' })),
  fc.tuple(fc.constantFrom(...IDS), fc.nat()).map(([id, number]): TaskEvent => ({
    type: 'turn.submitted',
    turn: {
      ...turn,
      messageId: `e${number}`,
      parts: [],
      answers: [{ id, action: 'accept', content: number }],
    },
  })),
);

/** Folds what is valid, and leaves out the rest. */
function foldValid(events: readonly TaskEvent[]): { snapshot: Snapshot; entries: Entry[] } {
  const first = { type: 'turn.submitted', turn, seq: 1, at: 1 } as Entry;
  const entries = [first];
  let snapshot = advance(undefined, first);
  for (const event of events) {
    const entry = { ...event, seq: snapshot.seq + 1, at: snapshot.seq + 1 } as Entry;
    try {
      snapshot = advance(snapshot, entry);
      entries.push(entry);
    } catch {
      // Not valid here.
    }
  }
  return { snapshot, entries };
}

const steps = fc.array(anyStep, { maxLength: 40 });

test('a fold that stops anywhere and goes on from its stored form ends the same', () => {
  fc.assert(
    fc.property(steps, fc.nat(), (events, where) => {
      const { snapshot, entries } = foldValid(events);
      const at = where % entries.length;
      let again: Snapshot | undefined;
      for (const [index, entry] of entries.entries()) {
        again = advance(again, decodeEntry(encodeEntry(entry)));
        if (index === at) again = JSON.parse(JSON.stringify(again)) as Snapshot;
      }
      expect(again).toEqual(snapshot);
    }),
  );
});

test('a suspended task has a wait, and needs a runner exactly when a wait is over', () => {
  fc.assert(
    fc.property(steps, (events) => {
      const { snapshot } = foldValid(events);
      const { suspended, waits = [], canceling, running } = snapshot;
      if (!suspended) return;
      expect(running).toBe(true);
      expect(waits.length).toBeGreaterThan(0);
      if (canceling) return;
      expect(needsRun(snapshot)).toBe(waits.some(({ answer }) => answer !== undefined));
      const due = dueAt(snapshot);
      if (due !== undefined) expect(nextTurn(snapshot, due)).toEqual(turn);
      if (due !== undefined && !needsRun(snapshot))
        expect(nextTurn(snapshot, due - 1)).toBeUndefined();
    }),
  );
});

test('recovery after any fold is valid, and never fails an open wait', () => {
  fc.assert(
    fc.property(steps, fc.boolean(), (events, resumable) => {
      const { snapshot } = foldValid(events);
      if (isFinal(snapshot.state)) return;
      let after = snapshot;
      for (const event of recoverRun(snapshot, { resumable }))
        after = advance(after, { ...event, seq: after.seq + 1, at: 1 } as Entry);
      if (snapshot.waits && !snapshot.canceling && snapshot.running)
        expect(after.state).toBe('working');
      if (after.state !== 'working') expect(after.waits).toBeUndefined();
    }),
  );
});
