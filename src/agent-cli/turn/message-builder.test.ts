import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../json.ts';
import { MessageBuilder, type AnswerPart, MALFORMED_INPUT } from './message-builder.ts';
import { type ModelEvent, NO_USAGE } from '../models/types.ts';
import { asString } from '../../json.ts';

const stop: ModelEvent = { type: 'stop', reason: 'end_turn', usage: NO_USAGE };
const anyEvent: fc.Arbitrary<ModelEvent> = fc.oneof(
  fc.record({ type: fc.constant('text' as const), text: fc.string() }),
  fc.record({ type: fc.constant('thinking' as const), text: fc.string() }),
  fc.record({ type: fc.constant('signature' as const), signature: fc.string() }),
  fc.record({ type: fc.constant('tool_use' as const), id: fc.uuid(), name: fc.constant('t') }),
  fc.record({
    type: fc.constant('tool_input' as const),
    json: fc.constantFrom('{"a":', '1}', '', 'x'),
  }),
  fc.constant<ModelEvent>({ type: 'block_end' }),
  fc.constant<ModelEvent>({ type: 'start' }),
);

/** What a consumer of raw events alone would rebuild; throws where an index does not fit. */
function rebuild(events: readonly JsonObject[]): string[] {
  const blocks: string[] = [];
  for (const { type, index, delta } of events) {
    const { text, thinking } = (delta ?? {}) as JsonObject;
    const expected = type === 'content_block_start' ? blocks.length : blocks.length - 1;
    if (index !== undefined && index !== expected)
      throw new Error(`index ${String(index as number)}`);
    if (type === 'content_block_start') blocks.push('');
    else if (type === 'content_block_delta') blocks[expected] += asString(text, asString(thinking));
  }
  return blocks;
}

const eventsIn = (parts: readonly AnswerPart[]): JsonObject[] =>
  parts.flatMap((part) => (part.type === 'event' ? [part.event] : []));

test('for any events of a driver, blocks open and close once, and their deltas are their content', () => {
  fc.assert(
    fc.property(fc.array(anyEvent), (driver) => {
      const answer = new MessageBuilder('m');
      const parts = [...driver, stop].flatMap((event) => answer.receive(event));
      const events = eventsIn(parts);
      const kinds = events.map(({ type }) => type);
      expect(kinds[0]).toBe('message_start');
      expect(kinds.at(-1)).toBe('message_stop');
      expect(kinds.filter((kind) => kind === 'content_block_start')).toHaveLength(
        answer.blocks.length,
      );
      expect(kinds.filter((kind) => kind === 'content_block_stop')).toHaveLength(
        answer.blocks.length,
      );
      const spoken = answer.blocks.map((block) =>
        asString(block['text'], asString(block['thinking'])),
      );
      // Arguments are parsed when they are complete: only words can be compared.
      const isCall = (i: number): boolean => answer.blocks[i]?.type === 'tool_use';
      expect(rebuild(events).map((text, i) => (isCall(i) ? '' : text))).toEqual(spoken);
    }),
  );
});

test('a finished block comes directly before its stop event', () => {
  const answer = new MessageBuilder('m');
  const parts = [{ type: 'text', text: 'hi' } as const, stop].flatMap((event) =>
    answer.receive(event),
  );
  const at = parts.findIndex(({ type }) => type === 'block');
  expect(parts[at]).toEqual({ type: 'block', index: 0, block: { type: 'text', text: 'hi' } });
  expect(parts[at + 1]).toEqual({ type: 'event', event: { type: 'content_block_stop', index: 0 } });
});

test('an abort keeps the text so far, closes the stream and drops an incomplete call', () => {
  const spoken = new MessageBuilder('m');
  spoken.receive({ type: 'text', text: 'half an' });
  expect(spoken.abort()).toMatchObject({
    block: { type: 'text', text: 'half an' },
    events: [
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta' },
      { type: 'message_stop' },
    ],
  });
  const calling = new MessageBuilder('m');
  calling.receive({ type: 'tool_use', id: '1', name: 't' });
  calling.receive({ type: 'tool_input', json: '{"a":' });
  expect(calling.abort().block).toBeUndefined();
  expect(new MessageBuilder('m').abort()).toEqual({ block: undefined, index: 0, events: [] });
});

test('arguments that are not a JSON object are kept as text', () => {
  const answer = new MessageBuilder('m');
  answer.receive({ type: 'tool_use', id: '1', name: 't' });
  answer.receive({ type: 'tool_input', json: '[1' });
  answer.receive(stop);
  expect(answer.blocks[0]).toMatchObject({ input: { [MALFORMED_INPUT]: '[1' } });
});

test.each([
  ['max_tokens', [MALFORMED_INPUT]],
  ['tool_use', []],
] as const)(
  'a call without arguments at the end of a message that stops with %s',
  (reason, keys) => {
    const answer = new MessageBuilder('m');
    answer.receive({ type: 'tool_use', id: 'a', name: 't' });
    answer.receive({ type: 'block_end' });
    answer.receive({ type: 'tool_use', id: 'b', name: 't' });
    answer.receive({ type: 'block_end' });
    answer.receive({ type: 'stop', reason, usage: NO_USAGE });
    // The first call is complete: another block follows it.
    expect(answer.blocks.map(({ input }) => Object.keys(input as JsonObject))).toEqual([[], keys]);
  },
);
