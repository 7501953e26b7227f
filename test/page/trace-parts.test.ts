import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Entry, TaskEvent } from '../../src/event/types.ts';
import { curlText, evalCaseText, shellQuote } from '../../web/src/inspector/copy-formats.ts';
import { stateOf, shownState } from '../../web/src/state/shown-state.ts';
import { TaskView } from '../../web/src/state/task-view.ts';
import { TokenTimes } from '../../web/src/state/token-times.ts';
import { parseRoute } from '../../web/src/shell/route.ts';
import { matchingRows } from '../../web/src/trace/event-filter.ts';
import {
  clampRange,
  fitRange,
  panRange,
  ticksOf,
  zoomRange,
} from '../../web/src/trace/time-range.ts';
import { layoutWaterfall, spanAt, xOf } from '../../web/src/trace/waterfall-layout.ts';
import { numbered, turnOf } from '../support/arbitraries.ts';

// The parts of the page that need no browser: ranges of time, layout, filters, copied texts.

const viewOf = (...events: readonly TaskEvent[]): TaskView => {
  const view = new TaskView();
  for (const [i, event] of [
    { type: 'turn.submitted', turn: turnOf('m1', { parts: [{ text: 'hi' }] }) } as const,
    ...events,
  ].entries())
    view.feed(numbered(event, i + 1) as Entry);
  return view;
};

describe('a range of time', () => {
  const bounds = fitRange(1000, 61_000);
  const range = fc
    .tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }))
    .map(([a, b]) =>
      clampRange(
        {
          from: bounds.from + Math.min(a, b) * (bounds.to - bounds.from),
          to: bounds.from + Math.max(a, b) * (bounds.to - bounds.from),
        },
        bounds,
      ),
    );
  const inside = ({ from, to }: { from: number; to: number }): void => {
    expect(from).toBeGreaterThanOrEqual(bounds.from - 0.001);
    expect(to).toBeLessThanOrEqual(bounds.to + 0.001);
    expect(to - from).toBeGreaterThan(4.9);
  };

  test('stays in its bounds, however it is zoomed and moved', () => {
    fc.assert(
      fc.property(
        range,
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: 0.01, max: 100, noNaN: true }),
        fc.double({ min: -5, max: 5, noNaN: true }),
        (given, part, factor, by) => {
          const at = given.from + part * (given.to - given.from);
          inside(zoomRange(given, at, factor, bounds));
          inside(panRange(given, by, bounds));
        },
      ),
    );
  });

  test('keeps the moment under the pointer when it zooms in', () => {
    const before = { from: 10_000, to: 20_000 };
    const after = zoomRange(before, 12_500, 0.5, bounds);
    expect((12_500 - after.from) / (after.to - after.from)).toBeCloseTo(0.25);
    expect(after.to - after.from).toBeCloseTo(5000);
  });

  test('has round ticks with different labels, from milliseconds to days', () => {
    for (const length of [5, 40, 700, 4000, 90_000, 4_000_000, 200_000_000, 5_000_000_000]) {
      const ticks = ticksOf({ from: 1000, to: 1000 + length }, 1000, 8);
      expect(ticks.length).toBeGreaterThan(1);
      expect(ticks.length).toBeLessThan(12);
      expect(new Set(ticks.map(({ label }) => label)).size).toBe(ticks.length);
    }
    expect(ticksOf({ from: 0, to: 4000 }, 0, 8).map(({ label }) => label)).toEqual([
      '0',
      '500 ms',
      '1.0 s',
      '1.5 s',
      '2.0 s',
      '2.5 s',
      '3.0 s',
      '3.5 s',
      '4.0 s',
    ]);
  });
});

test('the density of text is exact for any range, also if the clock was set back', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(100), fc.nat(9))),
      fc.nat(100),
      fc.nat(100),
      (list, a, b) => {
        const times = new TokenTimes();
        let latest = 0;
        const real = list.map(([at, chars]) => {
          times.add(at, chars);
          latest = Math.max(latest, at);
          return [latest, chars] as const;
        });
        const [from, to] = [Math.min(a, b), Math.max(a, b)];
        const sum = real
          .filter(([at]) => at >= from && at < to)
          .reduce((total, [, chars]) => total + chars, 0);
        expect(times.between(from, to)).toBe(sum);
      },
    ),
  );
});

describe('the waterfall', () => {
  const at = (ms: number, event: TaskEvent): TaskEvent => ({ ...event, at: ms });
  const view = new TaskView();
  const events = [
    at(0, { type: 'turn.submitted', turn: turnOf('m1') }),
    at(0, { type: 'run.started' }),
    at(100, { type: 'tool.called', callId: 'a', name: 'one', args: {} }),
    at(200, { type: 'tool.called', callId: 'b', name: 'two', args: {} }),
    at(600, { type: 'tool.completed', callId: 'a', name: 'one', output: 1 }),
    at(1000, { type: 'tool.completed', callId: 'b', name: 'two', output: 2 }),
  ];
  for (const [i, event] of events.entries()) view.feed({ ...event, seq: i + 1 } as Entry);
  const layout = layoutWaterfall(view.spans.groups, 1108, 400);
  const range = { from: 0, to: 1000 };

  test('the length of a bar is its duration, and calls that overlap are on different tracks', () => {
    const [one, two] = view.spans.all;
    const length = (from = 0, to = 0): number => xOf(layout, range, to) - xOf(layout, range, from);
    expect(length(one?.startedAt, one?.endedAt)).toBeCloseTo(500);
    expect(length(two?.startedAt, two?.endedAt)).toBeCloseTo(800);
    expect([one?.track, two?.track]).toEqual([0, 1]);
  });

  test('a point finds the span that covers it, a near one, and else none', () => {
    const box = layout.lanes[1]?.groups[0];
    const y = (track: number): number =>
      (box?.top ?? 0) + ((box?.pitch ?? 0) * (2 * track + 1)) / 2;
    const find = (ms: number, track: number): string | undefined =>
      spanAt(layout, range, xOf(layout, range, ms), y(track), 1000)?.name;
    expect([find(300, 0), find(300, 1), find(603, 0), find(700, 0), find(50, 1)]).toEqual([
      'one',
      'two',
      'one',
      undefined,
      undefined,
    ]);
  });

  test('a hundred tracks fit into the height', () => {
    const busy = new TaskView();
    busy.feed(numbered({ type: 'turn.submitted', turn: turnOf('m1') }, 1) as Entry);
    busy.feed(numbered({ type: 'run.started' }, 2) as Entry);
    for (let i = 0; i < 100; i++)
      busy.feed(
        numbered({ type: 'tool.called', callId: `c${i}`, name: 'x', args: {} }, i + 3) as Entry,
      );
    const { lanes } = layoutWaterfall(busy.spans.groups, 900, 500);
    const last = lanes.at(-1);
    expect((last?.top ?? 0) + (last?.height ?? 0)).toBeLessThan(500);
  });
});

describe('the fold', () => {
  const asks = { id: 'q', kind: 'question', message: 'Your name?' } as const;

  test('a question, the words of the answer and who gave them are in the conversation', () => {
    const view = viewOf(
      { type: 'run.started' },
      { type: 'input.required', request: asks },
      {
        type: 'turn.submitted',
        turn: turnOf('m2', {
          parts: [],
          owner: 'ada',
          answers: [{ id: 'q', action: 'accept', content: 'Ada' }],
        }),
      },
    );
    expect(view.talk.map(({ kind, text, by }) => [kind, text, by])).toEqual([
      ['user', 'hi', undefined],
      ['question', 'Your name?', undefined],
      ['answer', 'Ada', 'ada'],
    ]);
    expect(view.spans.all.find(({ kind }) => kind === 'wait')).toMatchObject({ state: 'answered' });
  });

  test('a sub-agent has its own group, below that of the agent', () => {
    const view = viewOf(
      { type: 'run.started' },
      { type: 'text.delta', id: 't', delta: 'a' },
      { type: 'text.delta', id: 't', delta: 'b', path: ['helper'] },
      { type: 'tool.called', callId: 'c', name: 'x', args: {}, path: ['helper'] },
    );
    expect(view.spans.groups.map(({ lane, path }) => [lane, ...path])).toEqual([
      ['message'],
      ['message', 'helper'],
      ['control', 'helper'],
    ]);
    expect(view.talk.map(({ text }) => text)).toEqual(['hi', 'a']);
  });

  test('retries, further attempts, the first token and the end are marked', () => {
    const error = { code: 'overloaded', message: 'x', retryable: true } as const;
    const view = viewOf(
      { type: 'run.started' },
      { type: 'text.delta', id: 't', delta: 'a' },
      { type: 'retry', attempt: 2, error, discard: true },
      { type: 'run.finished', outcome: 'completed', text: '' },
    );
    expect(view.markers.map(({ kind, label }) => [kind, label])).toEqual([
      ['first-token', 'first token'],
      ['retry', 'retry 2'],
      ['end', 'completed'],
    ]);
    expect(view.spans.all[0]?.state).toBe('void');
  });

  test('a filter finds rows by text, lane and arguments', () => {
    const { rows } = viewOf(
      { type: 'run.started' },
      { type: 'text.delta', id: 't', delta: 'Metformin is safe' },
      { type: 'tool.called', callId: 'c', name: 'search', args: { query: 'metformin' } },
    );
    const all = { text: '', lane: 'all', onlyProblems: false } as const;
    const kinds = (filter: Parameters<typeof matchingRows>[1]): unknown =>
      matchingRows(rows, filter)?.map((index) => rows[index]?.kind);
    expect(matchingRows(rows, all)).toBeUndefined();
    expect(kinds({ ...all, text: ' METFORMIN ' })).toEqual(['text', 'call']);
    expect(kinds({ ...all, text: 'metformin', lane: 'control' })).toEqual(['call']);
    expect(kinds({ ...all, onlyProblems: true })).toEqual([]);
  });

  test('each rule of the contract names what proves it', () => {
    const done = { type: 'tool.completed', callId: 'c', name: 'look', output: '' } as const;
    const view = viewOf(
      { type: 'run.started' },
      { type: 'tool.called', callId: 'c', name: 'look', args: {} },
      done,
      { type: 'run.finished', outcome: 'completed', text: '' },
    );
    const evidence = view.contract.rules.map(({ evidence: [first] }) => first?.text);
    expect(evidence).toEqual([
      'entry 1 is turn.submitted',
      '5 entries received, the last is number 5',
      '5 entries folded by the rules of the task log',
      '1 calls, 1 results',
      '0 frames on the pipe, none undelivered',
      'entry 5 is final; nothing follows it',
    ]);
  });
});

describe('the state that the page shows', () => {
  const { snapshot } = viewOf({ type: 'run.started' });
  if (!snapshot) throw new Error('the fold of two entries is a snapshot');

  test('is unknown without a connection, unless it is final', () => {
    expect(shownState(snapshot, 'live', 0).key).toBe('working');
    for (const state of ['lost', 'disconnected', 'failed', 'silent'] as const)
      expect(shownState(snapshot, state, 4000)).toMatchObject({
        key: 'unknown',
        detail: expect.stringMatching(/^last seen working 4\.0 s ago; /) as string,
      });
    expect(shownState({ ...snapshot, state: 'completed' }, 'lost', 4000).key).toBe('completed');
  });

  test('says canceling, and whether a wait holds a process', () => {
    expect(stateOf({ ...snapshot, canceling: true }).label).toBe('canceling');
    expect(stateOf({ ...snapshot, suspended: true })).toMatchObject({
      label: 'sleeping',
      detail: 'holds no process',
    });
    const waits = { ...snapshot, state: 'input-required' } as const;
    expect(stateOf({ ...waits, running: true }).detail).toBeUndefined();
    expect(stateOf({ ...waits, running: false }).detail).toBe('holds no process');
  });
});

describe('copied texts', () => {
  test('a shell reads any text as one word that is the same text', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[^\0]*$/), (text) => {
        const echoed = execFileSync('/bin/sh', ['-c', `printf %s ${shellQuote(text)}`]);
        expect(echoed.equals(Buffer.from(text))).toBe(true);
      }),
      { numRuns: 30, examples: [[`'; touch /tmp/x; '`], ['$(id) `id` "\\'], ['\n']] },
    );
  });

  test('cURL has the message as A2A 1.0, the eval case has input, answers and tools', () => {
    const view = viewOf(
      { type: 'run.started' },
      { type: 'tool.called', callId: 'c', name: 'mcp__desk__look', args: {} },
      { type: 'tool.completed', callId: 'c', name: 'mcp__desk__look', output: '' },
      { type: 'run.finished', outcome: 'completed', text: '', output: { ok: true } },
    );
    if (!view.snapshot) throw new Error('the fold is a snapshot');
    const curl = curlText(view.snapshot, 'http://127.0.0.1:8003');
    expect(curl).toContain(`curl -N 'http://127.0.0.1:8003/a2a/a'`);
    expect(curl).toMatch(/"method":"SendStreamingMessage".*"parts":\[\{"text":"hi"\}\]/);
    expect(JSON.parse(evalCaseText(view))).toEqual([
      {
        name: 'hi',
        input: 'hi',
        expect: { outcome: 'completed', tools: ['mcp__desk__look'], output: { ok: true } },
      },
    ]);
  });
});

test('the address names all runs, the inbox, a task, or an entry of a task', () => {
  expect(parseRoute('')).toEqual({ view: 'runs' });
  expect(parseRoute('#/inbox')).toEqual({ view: 'inbox' });
  expect(parseRoute('#t1')).toEqual({ view: 'task', task: 't1', entry: undefined });
  expect(parseRoute('#t1/42')).toEqual({ view: 'task', task: 't1', entry: 42 });
  expect(parseRoute('#%')).toEqual({ view: 'task', task: '%', entry: undefined });
});
