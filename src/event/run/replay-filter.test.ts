import { expect, test } from 'vitest';
import { numbered } from '../../../test/support/arbitraries.ts';
import type { AgentEvent } from '../types.ts';
import { ReplayFilter, SeenEvents } from './replay-filter.ts';

const started: AgentEvent = { type: 'run.started' };
const step: AgentEvent = { type: 'step.started', step: 1 };
const text = (delta: string): AgentEvent => ({ type: 'text.delta', id: 't', delta });
const called = (callId: string): AgentEvent => ({
  type: 'tool.called',
  callId,
  name: 'n',
  args: 1,
});
const ended = (callId: string): AgentEvent => ({
  type: 'tool.completed',
  callId,
  name: 'n',
  output: callId,
});
const progress = (callId: string, message: string): AgentEvent => ({
  type: 'tool.progress',
  callId,
  message,
});
const retry: AgentEvent = {
  type: 'retry',
  attempt: 1,
  error: { code: 'server', message: 'busy', retryable: true },
  discard: true,
};

/** What a further run writes that yields `again`, after readers have seen `before`. */
function replay(before: readonly AgentEvent[], again: readonly AgentEvent[]): AgentEvent[] {
  const seen = new SeenEvents();
  for (const [index, event] of before.entries()) seen.add(numbered(event, index + 1));
  const filter = new ReplayFilter(seen, []);
  return again.flatMap((event) => filter.take(event));
}

const calls = [started, called('a'), called('b')];

test('the ends of parallel calls may come in another order', () => {
  const before = [...calls, ended('b'), ended('a'), text('Hel')];
  expect(replay(before, [...calls, ended('a'), ended('b'), text('Hello')])).toEqual([
    started,
    text('lo'),
  ]);
});

test('a new end of a call waits until the ends that were seen are repeated', () => {
  const again = [...calls, ended('a'), ended('b'), text('Hi')];
  expect(replay([...calls, ended('b')], again)).toEqual([started, ended('a'), text('Hi')]);
});

test('an end that was seen and is not repeated starts the text over', () => {
  const written = replay([...calls, ended('b')], [...calls, ended('a'), text('Hi')]);
  expect(written[0]).toEqual({ ...started, discard: true });
  expect(written.at(-1)).toEqual(text('Hi'));
});

test('progress need not be repeated, and is not shown twice', () => {
  const before = [started, called('a'), progress('a', '1'), progress('a', '2'), ended('a')];
  expect(replay(before, [started, called('a'), ended('a'), text('Hi')])).toEqual([
    started,
    text('Hi'),
  ]);
  const again = [started, called('a'), progress('a', '1'), progress('a', '3'), ended('a')];
  expect(replay(before.slice(0, 3), again)).toEqual([started, progress('a', '3'), ended('a')]);
});

test('a run that stopped within a step continues in that step, also the second time', () => {
  const finished: AgentEvent = { type: 'step.finished', step: 1 };
  const whole = [started, step, text('Hello'), finished];
  expect(replay([started, step, text('Hel')], whole)).toEqual([
    started,
    step,
    text('lo'),
    finished,
  ]);
  const twice = [started, step, text('Hel'), started, step, text('l')];
  expect(replay(twice, whole)).toEqual([started, step, text('o'), finished]);
});

test('what a retry has voided is not compared', () => {
  const status: AgentEvent = { type: 'status', message: 'Starting...' };
  const before = [started, status, step, text('Oh'), retry, status, text('Hel')];
  const again = [started, status, step, text('Hello')];
  expect(replay(before, again)).toEqual([started, step, text('lo')]);
});

const stored: AgentEvent = { type: 'step.stored', id: 's', kind: 'step', status: 'completed' };

test('a step that ends before everything was repeated is stored, and does not start over', () => {
  const before = [started, called('a'), called('b')];
  const again = [started, called('a'), stored, called('b'), ended('a')];
  expect(replay(before, again)).toEqual([started, stored, ended('a')]);
});

test('after such a step, a run that does something else discards the text in a further attempt', () => {
  const second: AgentEvent = { ...started, attempt: 2 };
  expect(replay([started, text('Hello')], [second, stored, text('Oh')])).toEqual([
    second,
    stored,
    { ...second, attempt: 3, discard: true },
    text('Oh'),
  ]);
});

test('a step that a suspension has closed is open again in the next run', () => {
  const closed: AgentEvent = { type: 'step.finished', step: 1 };
  const finished: AgentEvent = { ...closed, usage: { inputTokens: 1 } };
  const suspended: AgentEvent = { type: 'run.suspended' };
  const before = [started, step, called('a'), closed, suspended];
  const again = [started, step, called('a'), ended('a'), finished];
  expect(replay(before, again)).toEqual([started, step, ended('a'), finished]);
  const twice = [...before, started, step, closed, suspended];
  expect(replay(twice, again)).toEqual([started, step, ended('a'), finished]);
});
