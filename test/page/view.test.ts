import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { advance } from '../../src/event/fold/advance.ts';
import type { Entry, Frame, Snapshot, TaskEvent } from '../../src/event/types.ts';
import { schedule, Replay } from '../../web/src/state/replay.ts';
import { sourcesIn } from '../../web/src/state/cited-sources.ts';
import { humanize, seriesOf } from '../../web/src/ui/table-data.ts';
import { TaskView } from '../../web/src/state/task-view.ts';
import { lawfulLog, numbered, turnOf } from '../support/arbitraries.ts';

const viewOf = (entries: readonly Entry[], old = false): TaskView => {
  const view = new TaskView();
  for (const entry of entries) view.feed(entry, old);
  return view;
};

const log = (...events: readonly TaskEvent[]): readonly Entry[] =>
  [{ type: 'turn.submitted', turn: turnOf('m1') } as const, ...events].map((event, i) =>
    numbered(event, i + 1),
  );

const brokenIn = (view: TaskView): readonly (string | undefined)[] =>
  view.contract.rules.filter(({ state }) => state === 'broken').map(({ detail }) => detail);

/** The text of the last run in the conversation. */
const answerOf = ({ talk, snapshot }: TaskView): string => {
  const from = talk.findLastIndex(({ kind, raw }) => kind === 'user' && raw === snapshot?.current);
  const said = talk.slice(from + 1).filter((row) => row.kind === 'text' && !row.void);
  return said.map(({ text }) => text).join('');
};

describe('any valid log', () => {
  test('breaks no rule, and the view equals the fold of the log', () => {
    fc.assert(
      fc.property(lawfulLog, (entries) => {
        const view = viewOf(entries);
        let snapshot: Snapshot | undefined;
        for (const entry of entries) snapshot = advance(snapshot, entry);
        expect(brokenIn(view)).toEqual([]);
        expect(view.snapshot).toEqual(snapshot);
        expect(view.inFlight.map(({ id }) => id).toSorted()).toEqual(
          snapshot?.calls.map(({ callId }) => callId).toSorted(),
        );
      }),
      { numRuns: 300 },
    );
  });

  test('shows exactly the text that was not discarded', () => {
    fc.assert(
      fc.property(lawfulLog, (entries) => {
        const view = viewOf(entries);
        // With several turns the talk goes on; the fold keeps the text of the last run alone.
        fc.pre(view.snapshot?.turns.length === 1);
        expect(answerOf(view)).toBe(view.snapshot?.text);
      }),
      { numRuns: 300 },
    );
  });

  test('keeps rows in order, and spans of one track one after the other', () => {
    fc.assert(
      fc.property(lawfulLog, (entries) => {
        const { rows, spans } = viewOf(entries);
        expect(rows.map(({ seq }) => seq)).toEqual(
          rows.map(({ seq }) => seq).toSorted((a, b) => a - b),
        );
        for (const span of spans.all) {
          expect(span.from).toBeLessThan(rows.length);
          expect(span.from).toBeLessThanOrEqual(span.to ?? rows.length - 1);
          expect(span.endedAt ?? Infinity).toBeGreaterThanOrEqual(span.startedAt);
        }
        for (const { tracks } of spans.groups)
          for (const track of tracks)
            for (const [i, span] of track.entries())
              if (i > 0)
                expect(span.startedAt).toBeGreaterThanOrEqual(track[i - 1]?.endedAt ?? NaN);
      }),
      { numRuns: 200 },
    );
  });

  test('gives the same view in two parts, as after a reconnect', () => {
    fc.assert(
      fc.property(lawfulLog, fc.nat(), (entries, at) => {
        const cut = at % entries.length;
        const view = viewOf(entries.slice(0, cut));
        expect(view.contract.seq).toBe(cut);
        for (const entry of entries.slice(view.contract.seq)) view.feed(entry);
        expect(view.rows).toEqual(viewOf(entries).rows);
      }),
    );
  });

  test('replays to the same view, never backwards, also if the clock was set back', () => {
    fc.assert(
      fc.property(lawfulLog, fc.array(fc.nat(5000)), (entries, jumps) => {
        const odd = entries.map((entry, i) => ({ ...entry, at: entry.at - (jumps[i] ?? 0) }));
        const times = schedule(odd);
        expect(times).toEqual(times.toSorted((a, b) => a - b));
        const replay = new Replay(odd, 50);
        for (let i = 0; i <= entries.length * 100 && !replay.done; i++) replay.tick(16);
        expect(replay.done).toBe(true);
        expect(replay.view.rows).toEqual(viewOf(odd, true).rows);
      }),
      { numRuns: 50 },
    );
  });
});

describe('a broken log is described', () => {
  const end = { type: 'run.finished', outcome: 'completed', text: '' } as const;
  const called = { type: 'tool.called', callId: 'c1', name: 'look', args: {} } as const;

  test('a gap', () => {
    const entries = log({ type: 'run.started' }, { type: 'status', message: 'x' }, end);
    expect(brokenIn(viewOf(entries.filter(({ seq }) => seq !== 3)))).toEqual([
      'entry 4 follows entry 2',
    ]);
  });

  test('a gap in a task that had ended is reported as pruning', () => {
    const entries = log({ type: 'run.started' }, { type: 'status', message: 'x' }, end);
    const view = viewOf(
      entries.filter(({ seq }) => seq !== 3),
      true,
    );
    expect(brokenIn(view)).toEqual([]);
    expect(view.contract.rules[1]?.detail).toContain('1 deltas were pruned');
    expect(view.snapshot?.state).toBe('completed');
  });

  test('an entry that came twice', () => {
    const entries = log({ type: 'run.started' });
    expect(brokenIn(viewOf([...entries, ...entries.slice(1)]))).toContain(
      'entry 2 was repeated after entry 2',
    );
  });

  test('a call without an answer, and an answer without a call', () => {
    const never = viewOf(log({ type: 'run.started' }, called, end));
    expect(brokenIn(never)).toContain('never answered: look (c1)');
    expect(never.contract.over).toBe(true);
    const done = { type: 'tool.completed', callId: 'c1', name: 'look', output: '' } as const;
    const twice = viewOf(log({ type: 'run.started' }, called, done, done));
    expect(brokenIn(twice)).toContain('look (c1) was answered twice or never called');
  });

  test('an entry after the end, or no end', () => {
    const late = viewOf(log({ type: 'run.started' }, end, { type: 'status', message: 'x' }));
    expect(brokenIn(late)).toContain('entry 4 (status) follows the final entry 3');
    const cut = viewOf(log({ type: 'run.started' }));
    cut.contract.close();
    expect(brokenIn(cut)).toEqual(['the stream ended without a final event']);
  });

  test('a wrong first entry', () => {
    const view = viewOf([numbered({ type: 'run.started' }, 1)]);
    expect(brokenIn(view)).toContain('the first event is run.started');
  });
});

describe('control frames', () => {
  const frame = (data: Frame['data'], more: Partial<Frame> = {}): TaskEvent => ({
    type: 'frame',
    frame: { lane: 'control', direction: 'in', at: 0, data, ...more },
  });
  const asks = (id: string, request: object): Frame['data'] => ({
    type: 'control_request',
    request_id: id,
    request,
  });
  const answers = (id: string, subtype = 'success'): Frame['data'] => ({
    type: 'control_response',
    response: { subtype, request_id: id },
  });
  const toolsCall = { subtype: 'mcp_message', server_name: 's', message: { method: 'tools/call' } };

  test('a request and its response are one row, with a bar between them', () => {
    const view = viewOf(
      log(
        { type: 'run.started' },
        frame(asks('a', { subtype: 'can_use_tool', tool_name: 'mcp__desk__read' })),
        frame(asks('b', { subtype: 'hook_callback', input: { hook_event_name: 'Stop' } })),
        frame(answers('b', 'error')),
        frame(answers('a')),
      ),
    );
    const rows = view.rows.filter(({ kind }) => kind === 'control');
    expect(rows.map(({ text, span }) => [text, span?.state, span?.track])).toEqual([
      ['← permission: desk · read', 'answered', 0],
      ['← hook: Stop', 'failed', 1],
    ]);
    expect(rows[0]?.span?.frames).toHaveLength(2);
  });

  test('the frames of a tool call are kept with its bar, also if the response follows the result', () => {
    const view = viewOf(
      log(
        { type: 'run.started' },
        { type: 'tool.called', callId: 'c1', name: 'mcp__s__look', args: {} },
        { ...frame(asks('a', toolsCall)), callId: 'c1' } as TaskEvent,
        { type: 'tool.completed', callId: 'c1', name: 'mcp__s__look', output: 'yes' },
        frame(answers('a')),
      ),
    );
    expect(view.rows.filter(({ kind }) => kind === 'control')).toEqual([]);
    expect(view.spans.all).toMatchObject([{ name: 's · look', state: 'answered', output: 'yes' }]);
    expect(view.spans.all[0]?.frames).toHaveLength(2);
  });

  test('a response that could not be written marks its call as lost and breaks a rule', () => {
    const view = viewOf(
      log(
        { type: 'run.started' },
        { type: 'tool.called', callId: 'c1', name: 'look', args: {} },
        { ...frame(asks('a', toolsCall)), callId: 'c1' } as TaskEvent,
        frame(answers('a'), { lost: true }),
        { type: 'tool.completed', callId: 'c1', name: 'look', output: 'yes' },
      ),
    );
    expect(view.spans.all[0]?.state).toBe('lost');
    expect(brokenIn(view)[0]).toContain('entry 5 could not be written');
  });

  test('a request that is open when the run ends is unanswered', () => {
    const view = viewOf(
      log({ type: 'run.started' }, frame(asks('a', { subtype: 'interrupt' })), {
        type: 'run.finished',
        outcome: 'completed',
        text: '',
      }),
    );
    expect(view.spans.all).toMatchObject([{ state: 'unanswered', from: 2, to: 3 }]);
  });
});

test('finds passages in elements and in records within other data', () => {
  const xml = '<source id="a" title="A &amp; B" section="1">x &lt; y</source> noise <source>';
  const found = [...sourcesIn([{ type: 'text', text: xml }, { hits: [{ id: 'b', text: 'z' }] }])];
  expect(found).toEqual([
    { id: 'a', title: 'A & B', section: '1', text: 'x < y' },
    { id: 'b', title: 'b', text: 'z' },
  ]);
});

test('charts the first column of numbers over the first column of strings', () => {
  const rows = [
    { id: 1, test: 'eGFR', value: 38 },
    { id: 2, test: 'K', value: 5.1 },
  ];
  expect(seriesOf(rows)).toMatchObject({ label: 'test', value: 'value' });
  expect(seriesOf(rows.map(({ id, test: name }) => ({ id, name })))).toBeUndefined();
  expect(seriesOf([...rows, { id: 3, test: 'x', value: '-' }])).toBeUndefined();
  expect(humanize('medicationSafety')).toBe('Medication safety');
});
