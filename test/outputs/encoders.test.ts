import fc from 'fast-check';
import { expect, test } from 'vitest';
import { frameReader } from '../../src/adapters/stream-json/frame-reader.ts';
import type { AgentEvent, Entry, TaskEvent } from '../../src/event/types.ts';
import {
  agUiEncoder,
  type OutputMessage,
  type OutputEncoder,
  streamJsonEncoder,
  uiMessageEncoder,
} from '../../src/outputs/index.ts';
import { lawfulLog, numbered, turnOf } from '../support/arbitraries.ts';
import { encoderContract } from '../contracts/encoder.contract.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';
import { agUiReaders, readUi } from './readers.ts';

const makers: Readonly<Record<string, () => OutputEncoder>> = {
  'AG-UI': agUiEncoder,
  'the UI message stream': uiMessageEncoder,
  'the UI message stream of SDK 7': () => uiMessageEncoder({ version: 7 }),
  'stream-json': streamJsonEncoder,
};
for (const [name, make] of Object.entries(makers)) encoderContract(name, () => make().encode);

const log = (...events: readonly TaskEvent[]): Entry[] =>
  events.map((event, i) => numbered(event, i + 1));

/** The whole log as one stream, which ends as the server would end it there. */
function whole(make: () => OutputEncoder, entries: readonly Entry[]): OutputMessage[] {
  const { encode, pause } = make();
  return [...entries.flatMap((entry) => [...encode(entry)]), ...pause()];
}

/** Each stream that a front end would have read: one for each run, cut where the task waited. */
function streams(make: () => OutputEncoder, entries: readonly Entry[]): OutputMessage[][] {
  const output = make();
  const cut: OutputMessage[][] = [[]];
  for (const entry of entries) {
    const ended = entry.type === 'turn.submitted' ? output.pause() : [];
    const outs = output.encode(entry);
    if (ended.length > 0 && outs.length > 0) {
      cut.at(-1)?.push(...ended);
      cut.push(outs.slice(ended.length));
    } else cut.at(-1)?.push(...outs);
  }
  cut.at(-1)?.push(...output.pause());
  return cut.filter((stream) => stream.length > 0);
}

const frontEnds = await peer('front-ends');

suite('front-ends', frontEnds.reason, () => {
  test.each(['1.0', '0.0.59'] as const)(
    'every stream of any valid log passes the schemas and the verifier of AG-UI %s',
    async (version) => {
      const reader = (await agUiReaders(frontEnds))[version];
      await fc.assert(
        fc.asyncProperty(lawfulLog, async (entries) => {
          for (const stream of streams(agUiEncoder, entries)) await reader.read(stream);
          await reader.read(whole(agUiEncoder, entries));
        }),
        { numRuns: 60 },
      );
    },
  );

  test.each([0, 7])(
    'every stream of any valid log passes the reader of the AI SDK (asked for version %i)',
    async (version) => {
      const read = await readUi(frontEnds);
      await fc.assert(
        fc.asyncProperty(lawfulLog, async (entries) => {
          await read(whole(() => uiMessageEncoder({ version }), entries));
        }),
        { numRuns: 60 },
      );
    },
  );

  test('the reader is strict: a stream that lacks its opening fails in each', async () => {
    const agUi = await agUiReaders(frontEnds);
    const broken = { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: 'x' };
    for (const reader of [agUi['1.0'], agUi['0.0.59']])
      await expect(reader.read([broken])).rejects.toThrow('RUN_STARTED');
    const ui = await readUi(frontEnds);
    await expect(ui([{ type: 'text-delta', id: 'x', delta: 'a' }])).rejects.toThrow('text-start');
    await expect(ui([{ type: 'no-such-chunk' }])).rejects.toThrow();
  });
});

test('our reader of stream-json reads back the events of the agent', () => {
  fc.assert(
    fc.property(lawfulLog, (entries) => {
      const read = frameReader();
      const back = whole(streamJsonEncoder, entries).flatMap((data): AgentEvent[] => [
        ...read({ lane: 'message', direction: 'in', at: 1, data }),
      ]);
      const results = (events: readonly TaskEvent[]): unknown[] =>
        events.flatMap((event) =>
          event.type === 'tool.completed' || event.type === 'tool.failed'
            ? [[event.type, event.callId]]
            : [],
        );
      expect(results(back)).toEqual(results(entries));
      const text = (events: readonly TaskEvent[]): string =>
        events
          .map((event) => (event.type === 'text.delta' && !event.path?.length ? event.delta : ''))
          .join('');
      expect(text(back)).toBe(text(entries));
    }),
    { numRuns: 60 },
  );
});

const START = [
  { type: 'turn.submitted', turn: turnOf('m1') },
  { type: 'run.started', turn: 'm1', attempt: 1 },
] as const;

test('arguments are sent once: as deltas if they were streamed, else complete', () => {
  const outs = whole(
    agUiEncoder,
    log(
      ...START,
      { type: 'tool.started', callId: 'a', name: 'add' },
      { type: 'tool.args', callId: 'a', delta: '{"x":' },
      { type: 'tool.args', callId: 'a', delta: '1}' },
      { type: 'tool.called', callId: 'a', name: 'add', args: { x: 1 } },
      { type: 'tool.called', callId: 'b', name: 'add', args: { x: 2 } },
    ),
  );
  const args = outs.filter(({ type }) => type === 'TOOL_CALL_ARGS');
  expect(args.map(({ toolCallId, delta }) => [toolCallId, delta])).toEqual([
    ['a', '{"x":'],
    ['a', '1}'],
    ['b', '{"x":2}'],
  ]);
});

test('only clients of protocol 1 get `cancelled`, which older clients refuse', () => {
  const canceled = (metadata?: { protocolVersion: string }): unknown => {
    const turn = turnOf('m1', metadata && { metadata });
    return whole(
      agUiEncoder,
      log(
        { type: 'turn.submitted', turn },
        { type: 'cancel.requested' },
        { type: 'run.finished', outcome: 'canceled', text: 'Response stopped.' },
      ),
    ).at(-1)?.['outcome'];
  };
  expect(canceled()).toBeUndefined();
  expect(canceled({ protocolVersion: '1.0' })).toEqual({ type: 'cancelled' });
});

const APPROVAL = { id: 'c1/ok', kind: 'approval', callId: 'c1', message: 'May I?' } as const;
const ASKED = [
  ...START,
  { type: 'tool.called', callId: 'c1', name: 'drop', args: { table: 't' } },
  { type: 'input.required', request: APPROVAL },
] as const;

test('a question ends the AG-UI run as an interrupt, and its answer opens the next', () => {
  const outs = whole(agUiEncoder, log(...ASKED));
  expect(outs.at(-1)).toMatchObject({
    type: 'RUN_FINISHED',
    outcome: { type: 'interrupt', interrupts: [{ id: 'c1/ok', reason: 'approval' }] },
  });
  const answers = [{ id: 'c1/ok', action: 'accept' }] as const;
  const [first, second] = streams(
    agUiEncoder,
    log(...ASKED, { type: 'turn.submitted', turn: turnOf('m2', { parts: [], answers }) }),
  );
  expect(first).toEqual(outs);
  expect(second?.[0]).toMatchObject({ type: 'RUN_STARTED', runId: 'm2' });
});

test('an answer inside a message continues it, and a separate message starts another', () => {
  const answers = [{ id: 'c1/ok', action: 'accept' }] as const;
  const ids = (messageId: string): unknown[] =>
    whole(
      uiMessageEncoder,
      log(...ASKED, { type: 'turn.submitted', turn: turnOf(messageId, { parts: [], answers }) }),
    ).flatMap((out) => (out.type === 'start' ? [out['messageId']] : []));
  expect(ids('t/c1')).toEqual(['t', 't']);
  expect(ids('m2')).toEqual(['t', 't.2']);
});

test('text that a retry voids is discarded in the way that the client supports', () => {
  const entries = log(
    ...START,
    { type: 'step.started', step: 1 },
    { type: 'text.delta', id: 'x', delta: 'half' },
    {
      type: 'retry',
      attempt: 1,
      discard: true,
      error: { code: 'overloaded', message: 'busy', retryable: true },
    },
  );
  const types = (make: () => OutputEncoder): string[] =>
    whole(make, entries).map(({ type }) => type);
  expect(types(uiMessageEncoder)).toContain('data-discard');
  expect(types(() => uiMessageEncoder({ version: 7 }))).toContain('reset-step');
  expect(whole(agUiEncoder, entries).find(({ name }) => name === 'discard')?.['value']).toEqual({
    messageIds: ['t/4'],
  });
});
