import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeEntry } from '../../event/entry-codec.ts';
import type { AgentEvent, Entry } from '../../event/types.ts';
import { compactableRows } from './compaction.ts';
import type { EntryRow } from './store.ts';

const rowsOf = (events: readonly AgentEvent[]): EntryRow[] =>
  events.map((event, index) => {
    const seq = index + 1;
    return { seq, note: false, line: encodeEntry({ ...event, seq, at: 0 } as Entry) };
  });

const id = fc.constantFrom('a', 'b');
const piece: fc.Arbitrary<AgentEvent> = fc.oneof(
  fc.record({ type: fc.constant('text.delta' as const), id, delta: fc.string() }),
  fc.record({ type: fc.constant('text.end' as const), id, text: fc.string() }),
  fc.record({ type: fc.constant('tool.args' as const), callId: id, delta: fc.string() }),
  fc.record({
    type: fc.constant('tool.called' as const),
    callId: id,
    name: fc.constant('n'),
    args: fc.constant({}),
  }),
  fc.record({ type: fc.constant('status' as const), message: fc.string() }),
);

test('only pieces go, and only those whose end follows', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (events) => {
      const gone = new Set(compactableRows(rowsOf(events)));
      for (const [index, event] of events.entries()) {
        const rest = events.slice(index + 1);
        const closes =
          (event.type === 'text.delta' &&
            rest.some((later) => later.type === 'text.end' && later.id === event.id)) ||
          (event.type === 'tool.args' &&
            rest.some((later) => later.type === 'tool.called' && later.callId === event.callId));
        expect(gone.has(index + 1)).toBe(closes);
      }
    }),
  );
});

test('a block that an earlier attempt left open is not closed by a later one', () => {
  const events: AgentEvent[] = [
    { type: 'run.started' },
    { type: 'text.delta', id: 't', delta: 'cut' },
    { type: 'run.started', attempt: 2 },
    { type: 'text.delta', id: 't', delta: 'whole' },
    { type: 'text.end', id: 't', text: 'whole' },
  ];
  expect(compactableRows(rowsOf(events))).toEqual([4]);
});
