import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { contextFor } from '../../test/contracts/agent.contract.ts';
import { turnOf } from '../../test/support/arbitraries.ts';
import { DuolaneError } from '../errors.ts';
import { checkLaws, normalizeAgent } from '../event/index.ts';
import type { AgentEvent } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import { PartReader } from './ai-sdk/part-reader.ts';
import { StreamedMessage } from './anthropic/streamed-message.ts';
import { EventReader } from './google-adk/event-reader.ts';
import { GraphReader } from './langgraph/graph-reader.ts';
import { NestedAgent } from './mastra/nested-agent.ts';
import { RunReader } from './openai-agents/run-reader.ts';

// What comes from a framework is read without trust: any value in any place must not break a run.

const word = fc.constantFrom(
  '',
  'a',
  'call_1',
  'call_2',
  'ai',
  'tool',
  '{"a":1}',
  'AGENT',
  'assistant',
);
const leaf = fc.oneof(word, fc.nat(3), fc.boolean(), fc.constant(null), fc.constant(undefined));

const words = (...lines: readonly string[]): readonly string[] =>
  lines.flatMap((line) => line.split(' '));

/** Objects with the members that a framework uses, each with anything in it. */
const shaped = (types: readonly string[], members: readonly string[]): fc.Arbitrary<JsonObject> =>
  fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      leaf,
      fc.array(tie('value'), { maxLength: 3 }),
      tie('object'),
    ),
    object: fc
      .tuple(
        fc.constantFrom(...types),
        fc.dictionary(fc.constantFrom(...members), tie('value'), { maxKeys: 6 }),
      )
      .map(([type, fields]) => ({ ...fields, type })),
  })).object as fc.Arbitrary<JsonObject>;

const parts = shaped(
  words(
    'start-step text-delta reasoning-delta tool-input-start tool-input-delta tool-call tool-result tool-error',
    'tool-output-denied tool-approval-request file source finish-step error abort finish',
  ),
  words(
    'id toolCallId toolName text delta input output error',
    'toolCall file usage finishReason preliminary isError content performance',
    'role parts state',
  ),
);
const chunks = shaped(
  ['step-start', 'step-finish', 'tool-call-delta', 'tool-call-approval', 'tool-output', 'error'],
  [
    'payload',
    'toolCallId',
    'toolName',
    'args',
    'result',
    'output',
    'stepResult',
    'from',
    'usage',
    'reason',
  ],
);
const items = fc.tuple(
  fc.array(fc.constantFrom('agent:1', 'sub:2'), { maxLength: 3 }),
  fc.constantFrom('messages', 'updates', 'custom', 'tools', 'other'),
  fc.oneof(
    fc.array(
      shaped(
        ['ai', 'tool', 'human'],
        words(
          'id content tool_call_chunks tool_calls usage_metadata status name tool_call_id',
          'index args langgraph_node additional_kwargs messages',
        ),
      ),
      { maxLength: 2 },
    ),
    shaped(
      ['x'],
      [
        'event',
        'toolCallId',
        'name',
        'input',
        'output',
        'error',
        'interrupts',
        '__interrupt__',
        'id',
      ],
    ),
  ),
);
const runs = shaped(
  ['raw_model_stream_event', 'run_item_stream_event', 'agent_updated_stream_event', 'model'],
  words(
    'data event name item rawItem callId arguments output',
    'choices delta tool_calls function index id response usage',
    'agent',
  ),
);
const events = shaped(
  ['event'],
  words(
    'author branch partial content parts text thought functionCall',
    'functionResponse id name args response usageMetadata finishReason errorCode',
    'errorMessage promptTokenCount',
  ),
);

type Read = (value: never) => readonly AgentEvent[];
const READERS: readonly [string, fc.Arbitrary<unknown>, () => Read][] = [
  ['the AI SDK', parts, () => bound(new PartReader())],
  ['Mastra', chunks, () => bound(new NestedAgent())],
  ['LangGraph', items, () => bound(new GraphReader())],
  ['OpenAI Agents', runs, () => bound(new RunReader())],
  ['Google ADK', events, () => bound(new EventReader())],
];

function bound(reader: { read(value: never): readonly AgentEvent[] }): Read {
  return (value) => reader.read(value);
}

describe.each(READERS)('whatever %s says', (_name, arbitrary, open) => {
  test('it is read as events of a valid run, or fails with a DuolaneError', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(arbitrary, { maxLength: 12 }), async (values) => {
        const read = open();
        const thrown: unknown[] = [];
        const agent = async function* (): AsyncGenerator<AgentEvent> {
          for (const value of values) {
            try {
              yield* read(value as never);
            } catch (error) {
              thrown.push(error);
              throw error;
            }
          }
        };
        const seen: AgentEvent[] = [];
        for await (const event of normalizeAgent(agent)(turnOf('m1'), contextFor().ctx))
          seen.push(event);
        expect(thrown.filter((error) => !(error instanceof DuolaneError))).toEqual([]);
        expect(checkLaws(seen)).toEqual([]);
      }),
    );
  });
});

test('a message of the Messages API is built from its stream, wherever the stream ends', () => {
  const text = fc.array(fc.string({ maxLength: 5 }), { maxLength: 5 });
  fc.assert(
    fc.property(text, fc.jsonValue(), fc.array(fc.nat(20)), (pieces, input, cuts) => {
      const json = JSON.stringify({ input });
      const places = [0, ...cuts.map((n) => n % json.length), json.length].toSorted(
        (a, b) => a - b,
      );
      const answer = new StreamedMessage();
      answer.take({
        type: 'content_block_start',
        index: 0,
        content_block: { type: 'text', text: '' },
      });
      for (const piece of pieces)
        answer.take({ type: 'content_block_delta', index: 0, delta: { text: piece } });
      const content_block = { type: 'tool_use', id: 'c', name: 'f', input: {} };
      answer.take({ type: 'content_block_start', index: 1, content_block });
      for (const [i, from] of places.entries())
        answer.take({
          type: 'content_block_delta',
          index: 1,
          delta: { partial_json: json.slice(from, places[i + 1] ?? from) },
        });
      expect(answer.text).toBe(pieces.join(''));
      expect(answer.calls).toEqual([{ callId: 'c', name: 'f', args: JSON.parse(json) as unknown }]);
    }),
  );
});
