import { expect, test } from 'vitest';
import { verifies } from '../../test/verifies.ts';
import type { Snapshot, TaskEvent, Turn } from '../event/types.ts';
import type { Meter } from './meter.ts';
import { METRICS } from './meter.ts';
import { observeRuns } from './run-metrics.ts';

/** A meter that keeps every value, and a clock that the test moves. */
function bench() {
  const seen: [string, number, string][] = [];
  const meter: Meter = {
    bind:
      ({ name }, labels) =>
      (value) =>
        void seen.push([name, Number(value.toFixed(3)), Object.values(labels).slice(1).join('/')]),
  };
  let at = 1000;
  const observer = observeRuns(meter, { now: () => at });
  return {
    observer,
    wait: (ms: number) => void (at += ms),
    of: (metric: { readonly name: string }) =>
      seen.flatMap(([name, value, labels]) => (name === metric.name ? [[value, labels]] : [])),
  };
}

const turn: Turn = {
  agent: 'a',
  task: 't',
  context: 'c',
  messageId: 'm',
  parts: [{ text: 'hi' }],
};
const task = (updatedAt = Date.now()): Snapshot => ({ task: 't', updatedAt }) as Snapshot;
const text = (delta: string): TaskEvent => ({ type: 'text.delta', id: 'x', delta });

verifies(
  ['S208', 'S209', 'S210'],
  'the first token is measured once, from the request and from the model call, and what connecting took apart',
  () => {
    const { observer, wait, of } = bench();
    observer.submitted?.(turn);
    wait(100); // in the queue
    const run = observer.run(turn, task());
    wait(2000); // a cold MCP server
    run.onEvent({ type: 'step.started', step: 1 });
    wait(500); // the model
    run.onEvent(text('first'));
    wait(250);
    run.onEvent(text('second'));
    run.onEvent({ type: 'step.finished', step: 1 });
    run.onEvent({ type: 'step.started', step: 2 });
    wait(400);
    run.onEvent({ type: 'text.delta', id: 'y', delta: 'more' });
    run.onEvent({ type: 'step.finished', step: 2 });
    run.onEvent({ type: 'run.finished', outcome: 'completed', text: '' });
    run.onEnd();
    expect(of(METRICS.firstToken)).toEqual([[2.6, '']]);
    expect(of(METRICS.queued)).toEqual([[0.1, '']]);
    expect(of(METRICS.connect)).toEqual([[2, '']]);
    expect(of(METRICS.modelFirstToken)).toEqual([
      [0.5, ''],
      [0.4, ''],
    ]);
    expect(of(METRICS.modelCall)).toEqual([
      [0.75, ''],
      [0.4, ''],
    ]);
    expect(of(METRICS.run)).toEqual([[3.15, 'completed']]);
    expect(of(METRICS.activeRuns)).toEqual([
      [1, ''],
      [-1, ''],
    ]);
  },
);

test("for an agent that reports its step with the first chunk, the model's own time counts", () => {
  const { observer, wait, of } = bench();
  observer.submitted?.(turn);
  const run = observer.run(turn, task());
  wait(3000); // 1 s to start, 2 s the model
  run.onEvent({ type: 'step.started', step: 1 });
  run.onEvent(text('first'));
  wait(100);
  run.onEvent({ type: 'step.finished', step: 1, firstChunkMs: 2000 });
  expect(of(METRICS.modelFirstToken)).toEqual([[2, '']]);
  expect(of(METRICS.modelCall)).toEqual([[2.1, '']]);
  expect(of(METRICS.connect)).toEqual([[1, '']]);
});

verifies(['S211'], 'the buckets of first tokens are fine from 0.1 s to 10 s', () => {
  for (const { buckets = [] } of [METRICS.firstToken, METRICS.modelFirstToken, METRICS.connect]) {
    expect([buckets[0], buckets.at(-1)]).toEqual([0.1, 10]);
    for (const typical of [0.5, 1, 2, 4]) expect(buckets).toContain(typical);
    expect(buckets).toEqual(buckets.toSorted((a, b) => a - b));
  }
});

test('tools, retries, tokens and cancels are counted by their labels', () => {
  const { observer, wait, of } = bench();
  const run = observer.run(turn, task());
  const error = { code: 'overloaded', message: 'busy', retryable: true } as const;
  run.onEvent({ type: 'retry', attempt: 1, error, discard: false });
  run.onEvent({ type: 'tool.called', callId: 'c', name: 'add', args: {} });
  wait(40);
  run.onEvent({ type: 'tool.called', callId: 'd', name: 'sub', args: {} });
  run.onEvent({ type: 'tool.completed', callId: 'c', name: 'add', output: 1 });
  run.onEvent({ type: 'tool.failed', callId: 'd', name: 'sub', error, ms: 7 });
  run.onEvent({ type: 'cancel.requested' });
  run.onEvent({ type: 'cancel.requested' });
  wait(20);
  run.onEvent({ type: 'run.finished', outcome: 'canceled', text: '', usage: { inputTokens: 3 } });
  expect(of(METRICS.retries)).toEqual([[1, 'overloaded']]);
  expect(of(METRICS.toolCall)).toEqual([
    [0.04, 'add/completed'],
    [0.007, 'sub/overloaded'],
  ]);
  expect(of(METRICS.cancels)).toEqual([[1, '']]);
  expect(of(METRICS.cancel)).toEqual([[0.02, '']]);
  expect(of(METRICS.tokens)).toEqual([[3, 'input']]);
});

test('a turn that was submitted elsewhere counts from its own time, and answers are not turns', () => {
  const { observer, of } = bench();
  observer.submitted?.({ ...turn, parts: [] });
  observer.run(turn, task(Date.now() - 5000));
  expect(of(METRICS.queued)[0]?.[0]).toBeGreaterThanOrEqual(5);
  expect(of(METRICS.waitingTurns)).toEqual([]);
});

test('text of sub-agents is not the first token', () => {
  const { observer, of } = bench();
  const run = observer.run(turn, task());
  run.onEvent({ type: 'text.delta', id: 'x', delta: 'inner', path: ['sub'] });
  expect(of(METRICS.firstToken)).toEqual([]);
});
