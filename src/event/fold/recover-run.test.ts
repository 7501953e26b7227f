import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { quiet, script, thrownBy } from '../../../test/support/arbitraries.ts';
import { advance, needsRun, nextTurn } from './advance.ts';
import { RunStateMachine } from '../run/run-state-machine.ts';
import { rebaseEvents, recoverRun, CANCELED_TEXT } from './recover-run.ts';
import type { AgentEvent, Entry, Snapshot, TaskEvent, Turn } from '../types.ts';

const opening: TaskEvent[] = [
  {
    type: 'turn.submitted',
    turn: { agent: 'a', task: 't', context: 'c', messageId: 'm1', parts: [{ text: 'hi' }] },
  },
  { type: 'run.started', turn: 'm1', attempt: 1 },
  { type: 'text.delta', id: 'x', delta: 'so far' },
  { type: 'tool.called', callId: 'c1', name: 'f', args: { a: 1 } },
  { type: 'tool.started', callId: 'c2', name: 'g' },
];
const asked: AgentEvent = { type: 'input.required', request: { id: 'c1/ok', kind: 'approval' } };
const cancel: TaskEvent = { type: 'cancel.requested' };

const fold = (events: readonly TaskEvent[], from?: Snapshot): Snapshot =>
  events.reduce<Snapshot | undefined>(
    (snapshot, event) =>
      advance(snapshot, { ...event, seq: (snapshot?.seq ?? 0) + 1, at: 0 } as Entry),
    from,
  ) as Snapshot;
const types = (events: readonly AgentEvent[]): string[] =>
  events.map((event) =>
    event.type === 'run.finished' ? `${event.type} ${event.outcome}` : event.type,
  );

describe('recoverRun', () => {
  test('a cancel ends as canceled, its calls closed', () => {
    const lost = fold([...opening, cancel]);
    const events = recoverRun(lost, { resumable: true });
    expect(types(events)).toEqual(['tool.failed', 'tool.failed', 'run.finished canceled']);
    expect(events.at(-1)).toMatchObject({ text: CANCELED_TEXT });
    expect(fold(events, lost).state).toBe('canceled');
  });

  test('a wait never fails: the task waits, and its call stays open', () => {
    const lost = fold([...opening, asked]);
    const events = recoverRun(lost, {});
    expect(types(events)).toEqual(['tool.failed', 'run.finished input-required']);
    const asleep = fold(events, lost);
    expect(asleep).toMatchObject({ state: 'input-required', running: false });
    expect(asleep.calls).toEqual([{ callId: 'c1', name: 'f', args: { a: 1 } }]);
    expect(needsRun(asleep)).toBe(false);
  });

  test('an agent with durable steps repeats its calls, also while an answer is not spent', () => {
    const step: AgentEvent = { type: 'step.stored', id: 's', kind: 'step', status: 'started' };
    const question: AgentEvent = {
      type: 'input.required',
      request: { id: 'm1/ok', kind: 'approval' },
    };
    const answers = [{ id: 'm1/ok', action: 'accept' } as const];
    const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm2', parts: [], answers };
    const waiting = fold([...opening, step, question]);
    expect(types(recoverRun(waiting, { resumable: true }))).toContain(
      'run.finished input-required',
    );
    const lost = fold([{ type: 'turn.submitted', turn }], waiting);
    expect(recoverRun(lost, { resumable: true })).toEqual([]);
    expect(nextTurn(lost)?.messageId).toBe('m1');
  });

  test('an answer that no run has used is not lost: the agent is called again', () => {
    const answer: TaskEvent = {
      type: 'turn.submitted',
      turn: {
        agent: 'a',
        task: 't',
        context: 'c',
        messageId: 'm2',
        parts: [],
        answers: [{ id: 'c1/ok', action: 'accept' }],
      },
    };
    const lost = fold([...opening, asked, answer]);
    const after = fold(recoverRun(lost, {}), lost);
    expect(after).toMatchObject({ state: 'working', answers: [{ id: 'c1/ok' }] });
    expect(needsRun(after)).toBe(true);
  });

  test('a resumable run fails its calls and goes on', () => {
    const lost = fold(opening);
    const after = fold(recoverRun(lost, { resumable: true }), lost);
    expect(after).toMatchObject({ running: true, calls: [], text: 'so far' });
    expect(needsRun(after)).toBe(true);
  });

  test('any other run fails as interrupted, with the text so far', () => {
    const lost = fold(opening);
    const events = recoverRun(lost, {});
    expect(events.at(-1)).toMatchObject({ outcome: 'failed', text: 'so far' });
    expect(fold(events, lost)).toMatchObject({ state: 'failed', error: { code: 'interrupted' } });
  });

  test('between runs only a cancel is recovered', () => {
    const waiting = fold(opening.slice(0, 1));
    expect(recoverRun(waiting, {})).toEqual([]);
    expect(types(recoverRun({ ...waiting, canceling: true }, {}))).toEqual([
      'run.finished canceled',
    ]);
  });
});

describe('rebaseEvents', () => {
  const batch: AgentEvent[] = [
    { type: 'text.delta', id: 'y', delta: 'late' },
    { type: 'text.end', id: 'y', text: 'late' },
    {
      type: 'tool.failed',
      callId: 'c2',
      name: 'g',
      error: { code: 'tool', message: '', retryable: false },
    },
    { type: 'tool.called', callId: 'c3', name: 'h', args: {} },
    { type: 'run.finished', outcome: 'input-required', text: 'late', usage: { inputTokens: 1 } },
  ];

  test('makes a batch valid after a cancel', () => {
    const canceling = fold([...opening, cancel]);
    const events = rebaseEvents(canceling, batch);
    expect(types(events)).toEqual([
      'tool.failed',
      'tool.called',
      'tool.failed',
      'tool.failed',
      'run.finished canceled',
    ]);
    expect(fold(events, canceling)).toMatchObject({ state: 'canceled', usage: { inputTokens: 1 } });
  });

  test('whenever the cancel comes, the rest of any run can still be written', () => {
    fc.assert(
      fc.property(script, fc.nat(30), ({ yields, end }, at) => {
        const first = fold(opening.slice(0, 1));
        const turn = nextTurn(first) as Turn;
        const laws = new RunStateMachine({ turn, task: first, continues: false, logger: quiet });
        const events = yields.flatMap((value) => laws.take(value));
        events.push(...laws.end(end === 'return' ? undefined : { error: thrownBy(end) }));
        const overtaken = Math.min(at, events.length - 1);
        const canceling = fold([...events.slice(0, overtaken), cancel], first);
        const rest = rebaseEvents(canceling, events.slice(overtaken));
        expect(fold(rest, canceling).state).toBe('canceled');
      }),
      { numRuns: 200 },
    );
  });

  test('does not change any other batch', () => {
    expect(rebaseEvents(fold(opening), batch)).toBe(batch);
  });
});
