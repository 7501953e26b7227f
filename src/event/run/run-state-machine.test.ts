import { BlockTracker } from './block-tracker.ts';
import { CallTracker } from './call-tracker.ts';
import { parseEvent } from './parse-event.ts';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  anyYield,
  lawfulLog,
  numbered,
  quiet,
  type Script,
  script,
  thrownBy,
  turnOf,
} from '../../../test/support/arbitraries.ts';
import { verifies } from '../../../test/verifies.ts';
import { DuolaneError, type ErrorCode } from '../../errors.ts';
import { advance } from '../fold/advance.ts';
import { checkLaws } from '../check-laws.ts';
import { RunStateMachine } from './run-state-machine.ts';
import { truncateEvent as truncated } from '../truncate-event.ts';
import type { AgentEvent, Snapshot, TaskEvent } from '../types.ts';

const turn = turnOf('m1');
const fresh: Snapshot = advance(undefined, numbered({ type: 'turn.submitted', turn }, 1));
const lawsOf = (task: Snapshot = fresh, logger = quiet): RunStateMachine =>
  new RunStateMachine({ turn, task, continues: false, logger });

/** Everything that comes out when these go in and the agent returns. */
function enforced(...yields: unknown[]): AgentEvent[] {
  const laws = lawsOf();
  return [...yields.flatMap((value) => laws.take(value)), ...laws.end()];
}
/** The same, short: `type id:text`. */
const brief = (events: readonly AgentEvent[]): string[] =>
  events.map((event) => {
    const { type, id, callId, step, delta, text, outcome } = event as unknown as Record<
      string,
      unknown
    >;
    const words = [type, id ?? callId ?? step ?? outcome, delta ?? text];
    return words.filter((word) => word !== undefined && word !== '').join(' ');
  });
const text = (delta: string, id = 'x'): unknown => ({ type: 'text.delta', id, delta });
const call = (callId: string): unknown => ({ type: 'tool.called', callId, name: 'f', args: {} });
const done = (callId: string): unknown => ({
  type: 'tool.completed',
  callId,
  name: 'f',
  output: 1,
});

test('a suspended run shows nothing that came after a delta that it dropped', () => {
  const afterStop = (code: ErrorCode, continues: boolean): string[] => {
    const machine = new RunStateMachine({ turn, task: fresh, continues, logger: quiet });
    machine.take(call('a'));
    machine.stop(new DuolaneError(code, 'stopped'));
    return brief([done('a'), text('lost'), call('b')].flatMap((value) => machine.take(value)));
  };
  expect(afterStop('suspended', false)).toEqual(['tool.completed a']);
  // These do not repeat what was shown.
  expect(afterStop('suspended', true)).toEqual(['tool.completed a', 'tool.called b']);
  expect(afterStop('canceled', false)).toEqual(['tool.completed a', 'tool.called b']);
});

describe('blocks', () => {
  test('an open block is closed before a tool call, another block and the end', () => {
    expect(brief(enforced(text('a'), call('c'), done('c'), text('b'), text('c', 'y')))).toEqual([
      'run.started',
      'text.delta x a',
      'text.end x a',
      'tool.called c',
      'tool.completed c',
      'text.delta x#2 b',
      'text.end x#2 b',
      'text.delta y c',
      'text.end y c',
      'run.finished completed abc',
    ]);
  });

  test('an end with more text sends the missing piece first', () => {
    const end = { type: 'text.end', id: 'x', text: 'whole' };
    expect(brief(enforced(text('wh'), end))).toEqual([
      'run.started',
      'text.delta x wh',
      'text.delta x ole',
      'text.end x whole',
      'run.finished completed whole',
    ]);
    expect(brief(enforced(end)).slice(1, 3)).toEqual(['text.delta x whole', 'text.end x whole']);
  });

  test('a repeated complete text is ignored, however often its block was closed', () => {
    const whole = { type: 'text.end', id: 'x', text: 'ab' };
    const events = enforced(text('a'), call('c'), done('c'), text('b'), whole, whole);
    expect(brief(events).filter((line) => line.startsWith('text.delta'))).toEqual([
      'text.delta x a',
      'text.delta x#2 b',
    ]);
    expect(events.at(-1)).toMatchObject({ text: 'ab' });
  });

  test('a late end of a block that was already closed is accepted', () => {
    const warnings: string[] = [];
    const laws = lawsOf(fresh, { ...quiet, warn: (message) => warnings.push(message) });
    for (const event of [text('a'), call('c'), text('b'), { type: 'text.end', id: 'x', text: 'a' }])
      laws.take(event);
    expect(warnings).toEqual([]);
  });

  test('an end that contradicts its deltas is ignored with a warning', () => {
    const warnings: string[] = [];
    const laws = lawsOf(fresh, { ...quiet, warn: (message) => warnings.push(message) });
    const events = [text('abc'), { type: 'text.end', id: 'x', text: 'xyz' }].flatMap((event) =>
      laws.take(event),
    );
    expect(events.at(-1)).toMatchObject({ type: 'text.end', text: 'abc' });
    expect(warnings).toHaveLength(1);
  });

  test('sub-agents have their own blocks', () => {
    const inner = { type: 'text.delta', id: 'z', delta: 'i', path: ['sub'] };
    expect(brief(enforced(text('a'), inner, text('b'), inner)).slice(1, 5)).toEqual([
      'text.delta x a',
      'text.delta z i',
      'text.delta x b',
      'text.delta z i',
    ]);
  });

  test('after a retry with discard, the same block may repeat its text', () => {
    const retry = {
      type: 'retry',
      attempt: 2,
      discard: true,
      error: { code: 'network', message: 'cut', retryable: true },
    };
    const events = enforced(text('hal'), retry, text('hello'), {
      type: 'text.end',
      id: 'x',
      text: 'hello',
    });
    expect(brief(events).filter((line) => line.startsWith('text'))).toEqual([
      'text.delta x hal',
      'text.end x hal',
      'text.delta x#2 hello',
      'text.end x#2 hello',
    ]);
    expect(events.at(-1)).toMatchObject({ text: 'hello' });
  });

  test('a text that only the end has is sent', () => {
    const events = enforced({ type: 'run.finished', outcome: 'completed', text: 'all together' });
    expect(brief(events)).toEqual([
      'run.started',
      'text.delta text all together',
      'text.end text all together',
      'run.finished completed all together',
    ]);
  });

  test('a character that is split over two deltas is sent in one piece', () => {
    const [high, low] = '😀'.split('') as [string, string];
    expect(brief(enforced(text(`a${high}`), text(low), text(high), text(`${low}b`)))).toEqual([
      'run.started',
      'text.delta x a',
      'text.delta x 😀',
      'text.delta x 😀b',
      'text.end x a😀😀b',
      'run.finished completed a😀😀b',
    ]);
    // Half of a surrogate pair is dropped unless the end completes it.
    expect(brief(enforced(text(`a${high}`)))).toContain('text.end x a');
    const end = { type: 'text.end', id: 'x', text: `a${high}${low}c` };
    expect(brief(enforced(text(`a${high}`), end))).toContain('text.end x a😀c');
    expect(brief(enforced(text(`a${high}`), call('c'), done('c'), text(low)))).toContain(
      'text.delta x#2 😀',
    );
  });

  test('a very long block goes on as the next, so that its end fits into one entry', () => {
    const events = enforced(text('\u{1f600}'.repeat(200_000)));
    const ends = events.flatMap((event) => (event.type === 'text.end' ? [event] : []));
    expect(ends.length).toBeGreaterThan(1);
    expect(ends.every((end) => JSON.stringify(end).length < 1 << 20)).toBe(true);
    expect(ends.map((end) => end.text).join('')).toBe('\u{1f600}'.repeat(200_000));
    expect(ends.every((end) => encodeURIComponent(end.text).length > 0)).toBe(true);
  });
});

describe('calls, steps and ends', () => {
  test('an artifact has only known members, and begins before it is appended to', () => {
    const bytes = new Uint8Array(2);
    const artifact = (fields: object): unknown => ({
      type: 'artifact',
      artifactId: 'a',
      ...fields,
    });
    const out = enforced(
      artifact({
        append: true,
        name: 5,
        metadata: [1],
        parts: [
          { text: 'a', mediaType: 5 },
          { text: 'a', url: 'http://x/' },
          { text: 5 },
          { url: new URL('http://x/') },
          { bytes },
          { data: undefined },
          { data: null },
          { foo: 1 },
          null,
        ],
      }),
      artifact({ append: true, parts: [{ text: 'b' }] }),
      artifact({ artifactId: 'gone', parts: [{ foo: 1 }] }),
    ).filter(({ type }) => type === 'artifact');
    expect(out).toEqual([
      {
        type: 'artifact',
        artifactId: 'a',
        parts: [
          { text: 'a' },
          { text: 'a' },
          { url: 'http://x/' },
          { bytes, mediaType: 'application/octet-stream' },
          { data: null },
          { data: null },
        ],
      },
      { type: 'artifact', artifactId: 'a', append: true, parts: [{ text: 'b' }] },
      { type: 'artifact', artifactId: 'gone', parts: [] },
    ]);
  });

  test('a call without a result fails at the end, and a repeated call closes once', () => {
    const started = { type: 'tool.started', callId: 'd', name: 'g' };
    expect(brief(enforced(call('c'), call('c'), done('c'), done('c'), started))).toEqual([
      'run.started',
      'tool.called c',
      'tool.completed c',
      'tool.started d',
      'tool.failed d',
      'run.finished completed',
    ]);
  });

  test('a completion without a call opens its call; a reused id is another call', () => {
    expect(brief(enforced(done('c'), call('c'), done('c'))).slice(1, -1)).toEqual([
      'tool.called c',
      'tool.completed c',
      'tool.called c#2',
      'tool.completed c#2',
    ]);
  });

  test('a renamed call takes its questions with it', () => {
    const ask = { type: 'input.required', request: { id: 'c/ok', callId: 'c', kind: 'approval' } };
    const events = enforced(call('c'), done('c'), call('c'), ask);
    expect(events.at(-2)).toMatchObject({ request: { id: 'c#2/ok', callId: 'c#2' } });
  });

  test('steps do not nest, and usage is the sum of the steps', () => {
    const start = (step: number): unknown => ({ type: 'step.started', step });
    const finish = (step: number, inputTokens: number): unknown => ({
      type: 'step.finished',
      step,
      usage: { inputTokens },
    });
    const end = {
      type: 'run.finished',
      outcome: 'completed',
      text: '',
      usage: { inputTokens: 99, costUsd: 2 },
    };
    const events = enforced(start(1), start(2), finish(2, 5), finish(2, 5), finish(1, 3), end);
    expect(brief(events)).toEqual([
      'run.started',
      'step.started 1',
      'step.finished 1',
      'step.started 2',
      'step.finished 2',
      'step.started 1',
      'step.finished 1',
      'run.finished completed',
    ]);
    expect(events.at(-1)).toMatchObject({ usage: { inputTokens: 8, costUsd: 2 } });
  });

  test('an error of the agent is its outcome; the text of an internal error is withheld', () => {
    const errors: string[] = [];
    const thrown = (error: unknown): AgentEvent | undefined =>
      lawsOf(fresh, { ...quiet, error: (message) => errors.push(message) })
        .end({ error })
        .at(-1);
    expect(thrown(thrownBy('throw'))).toMatchObject({
      outcome: 'failed',
      error: { code: 'rate_limited', status: 429, retryable: true },
    });
    expect(errors).toEqual([]);
    const internal = thrown(new Error('password is swordfish'));
    expect(internal).toMatchObject({ outcome: 'failed', error: { code: 'internal' } });
    expect(JSON.stringify(internal)).not.toContain('swordfish');
    expect(errors.join()).toContain('swordfish');
    expect(thrown(thrownBy('abort error'))).toMatchObject({ error: { code: 'interrupted' } });
  });

  test('invalid values are dropped with a warning, and the number of warnings is limited', () => {
    const warnings: string[] = [];
    const laws = lawsOf(fresh, { ...quiet, warn: (message) => warnings.push(message) });
    for (let i = 0; i < 1000; i++) expect(laws.take({ type: 'text.dleta' })).toEqual([]);
    expect(warnings[0]).toContain('unknown type "text.dleta"');
    expect(warnings).toHaveLength(20);
    expect(brief(laws.end())).toEqual(['run.started', 'run.finished completed']);
  });

  test('an agent that yields a question and ends waits for the answer with its call open', () => {
    const ask = { type: 'input.required', request: { id: 'c/ok', kind: 'approval' } };
    const events = enforced(call('c'), ask, ask);
    expect(brief(events)).toEqual([
      'run.started',
      'tool.called c',
      'input.required',
      'run.finished input-required',
    ]);
    expect(events.at(-1)).toMatchObject({ pending: [{ id: 'c/ok' }] });
  });

  test('an end as input-required without a question fails', () => {
    const end = enforced({ type: 'run.finished', outcome: 'input-required', text: '' }).at(-1);
    expect(end).toMatchObject({ outcome: 'failed', error: { code: 'invalid' } });
  });
});

describe('called again', () => {
  const asleep = [
    { type: 'run.started', turn: 'm1', attempt: 1 } as const,
    { type: 'text.delta', id: 'x', delta: 'one ' } as const,
    { type: 'tool.called', callId: 'c', name: 'f', args: { a: 1 } } as const,
    { type: 'input.required', request: { id: 'c/ok', kind: 'approval' } } as const,
    { type: 'run.finished', outcome: 'input-required', text: '' } as const,
  ].reduce(
    (snapshot: Snapshot, event) => advance(snapshot, numbered(event, snapshot.seq + 1)),
    fresh,
  );

  test('it counts the attempt and discards the text, unless it continues', () => {
    const start = (continues: boolean): AgentEvent[] =>
      new RunStateMachine({ turn, task: asleep, continues, logger: quiet }).take({
        type: 'run.started',
        sessionId: 's',
      });
    expect(start(false)).toEqual([
      { type: 'run.started', turn: 'm1', attempt: 2, discard: true, sessionId: 's' },
    ]);
    expect(start(true)).toEqual([{ type: 'run.started', turn: 'm1', attempt: 2, sessionId: 's' }]);
  });

  test('it finishes the open call, and its end has the complete text', () => {
    const laws = new RunStateMachine({ turn, task: asleep, continues: true, logger: quiet });
    const events = [done('c'), text('two')].flatMap((event) => laws.take(event));
    expect(brief([...events, ...laws.end()])).toEqual([
      'run.started',
      'tool.completed c',
      'text.delta x two',
      'text.end x two',
      'run.finished completed one two',
    ]);
  });
});

function checkRun(
  { yields, end }: Script,
  code: ErrorCode | undefined,
  stopAt: number,
  late: readonly unknown[],
): void {
  const laws = lawsOf();
  const events: AgentEvent[] = [];
  for (const [i, value] of yields.entries()) {
    if (i === stopAt && code) laws.stop(new DuolaneError(code, 'stop'));
    events.push(...laws.take(value));
  }
  events.push(...laws.end(end === 'return' ? undefined : { error: thrownBy(end) }));
  expect(late.flatMap((value) => laws.take(value))).toEqual([]);
  expect(laws.end()).toEqual([]);

  const stopped = code !== undefined && stopAt < yields.length;
  const open = stopped && (code === 'fenced' || code === 'suspended');
  expect(checkLaws(events, { open })).toEqual([]);
  const folded = events.reduce(
    (snapshot, event) => advance(snapshot, numbered(event, snapshot.seq + 1)),
    fresh,
  );
  const last = events.at(-1);
  if (last?.type === 'run.finished' && last.outcome !== 'canceled')
    expect(last.text).toBe(folded.text);
  expect(JSON.stringify(events)).not.toContain('secret');
}

describe('on every run', () => {
  verifies(
    ['S132', 'S133'],
    'whatever an agent does, the laws hold, the fold accepts it, and there is one end with nothing after it',
    () => {
      const reasons = fc.constantFrom('canceled', 'timeout', 'suspended', 'fenced', undefined);
      fc.assert(fc.property(script, reasons, fc.nat(14), fc.array(anyYield), checkRun), {
        numRuns: 300,
      });
    },
  );

  test('a valid run passes unchanged', () => {
    fc.assert(
      fc.property(fc.array(anyYield), (yields) => {
        const once = enforced(...yields);
        expect(enforced(...once)).toEqual(once);
      }),
      { numRuns: 300 },
    );
  });

  test('complete logs are valid: suspended, resumed, recovered, canceled, with further turns', () => {
    const states = new Set<string>();
    fc.assert(
      fc.property(lawfulLog, (entries) => {
        expect(checkLaws(entries, { open: true })).toEqual([]);
        const last = entries.reduce<Snapshot | undefined>(advance, undefined);
        if (last) states.add(last.state);
      }),
      { numRuns: 300 },
    );
    expect([...states]).toEqual(expect.arrayContaining(['canceled', 'completed', 'failed']));
  });
});

test('an id that is used again and again names a call of its own each time', () => {
  const calls = new CallTracker([], () => {});
  const ids = new Set<string>();
  for (let times = 0; times < 20_000; times++) {
    const [called] = calls.take({ type: 'tool.called', callId: 'c', name: 'n', args: null });
    ids.add((called as { readonly callId: string }).callId);
    calls.take({ type: 'tool.completed', callId: 'c', name: 'n', output: null });
  }
  expect(ids.size).toBe(20_000);
  expect([...ids].slice(0, 3)).toEqual(['c', 'c#2', 'c#3']);
});

test('a time outside the range of Date is dropped, and a fraction of a millisecond is cut off', () => {
  const read = (at: number): unknown => parseEvent({ type: 'status', message: 'x', at });
  expect(read(2 ** 53)).toEqual({ type: 'status', message: 'x' });
  expect(read(-5)).toEqual({ type: 'status', message: 'x' });
  expect(read(12.5)).toEqual({ type: 'status', message: 'x', at: 12 });
});

test('an ended long block is remembered without its text', () => {
  const warnings: string[] = [];
  const blocks = new BlockTracker((message) => void warnings.push(message));
  const text = 'x'.repeat(1000);
  blocks.delta({ type: 'text.delta', id: 'b', delta: text });
  const end = (whole: string) => blocks.end({ type: 'text.end', id: 'b', text: whole });
  expect(end(text)).toMatchObject([{ type: 'text.end', text }]);
  // Said again, it adds nothing; what goes beyond it is said.
  expect(end(text)).toEqual([]);
  expect(end(`${text} more`)).toMatchObject([
    { type: 'text.delta', id: 'b#2', delta: ' more' },
    { type: 'text.end', id: 'b#2', text: ' more' },
  ]);
  expect(end(`${text} more`)).toEqual([]);
  expect(warnings).toEqual([]);
  expect(end('y'.repeat(2000))).toEqual([]);
  expect(warnings).toHaveLength(1);
});

describe('a question whose id was used before in the run', () => {
  const ask = (id: string, message: string) => ({ id, kind: 'approval', message }) as const;

  test('takes the known answer if it asks the same, and is invalid if it asks something else', () => {
    const laws = lawsOf();
    laws.question(ask('q', 'delete A?'), () => {});
    laws.answer({ id: 'q', action: 'accept' });
    expect(laws.question(ask('q', 'delete A?'), () => {}).answer).toMatchObject({
      action: 'accept',
    });
    expect(() => laws.question(ask('q', 'delete B?'), () => {})).toThrow(/other content/);
  });

  test('is a new question once its call has closed', () => {
    const laws = lawsOf();
    laws.take(call('c'));
    laws.question(ask('c/q', 'delete A?'), () => {});
    laws.answer({ id: 'c/q', action: 'accept' });
    laws.take(done('c'));
    laws.take(call('c'));
    const { answer, events } = laws.question(ask('c/q', 'delete B?'), () => {});
    expect([answer, events]).toMatchObject([undefined, [{ type: 'input.required' }]]);
  });
});

describe('a question that its last asker withdrew', () => {
  const ask = (message: string) => ({ id: 'q', kind: 'approval', message }) as const;
  const withdrawn = (): RunStateMachine => {
    const laws = lawsOf();
    const onAnswer = (): void => {};
    laws.question(ask('delete A?'), onAnswer);
    laws.withdraw('q', onAnswer);
    return laws;
  };

  // The log keeps the question until the run ends, and refuses a second one under its id.
  test('is not written again when it is asked again', () => {
    const laws = withdrawn();
    expect(laws.question(ask('delete A?'), () => {}).events).toEqual([]);
    laws.answer({ id: 'q', action: 'accept' });
    expect(laws.question(ask('delete A?'), () => {}).answer).toMatchObject({ action: 'accept' });
  });

  test('does not give a late answer to another question under its id', () => {
    const laws = withdrawn();
    laws.answer({ id: 'q', action: 'accept' });
    const { answer, request, events } = laws.question(ask('delete B?'), () => {});
    expect([answer, request.id, events.length]).toEqual([undefined, 'q#2', 1]);
  });
});

describe('a question of the run before', () => {
  const request = (what: string) => ({ id: 'may', kind: 'approval', data: { what } }) as const;
  const asked = [
    { type: 'run.started', turn: 'm1' },
    { type: 'input.required', request: request('list') },
  ] as const;
  const answer = turnOf('m2', { parts: [], answers: [{ id: 'may', action: 'accept' }] });
  const after = (...events: readonly TaskEvent[]): Snapshot =>
    events.reduce((task, event, index) => advance(task, numbered(event, index + 2)), fresh);

  test('has its answer if it is asked again with the same content', () => {
    const task = after(...asked, { type: 'turn.submitted', turn: answer });
    expect(lawsOf(task).question(request('list'), () => {}).answer).toMatchObject({
      action: 'accept',
    });
    expect(lawsOf(after(...asked)).question(request('list'), () => {}).events).toHaveLength(1);
  });

  test('does not give its answer to another question under its id', () => {
    const task = after(...asked, { type: 'turn.submitted', turn: answer });
    const { answer: known, events } = lawsOf(task).question(request('delete'), () => {});
    expect(known).toBeUndefined();
    expect(events.at(-1)).toMatchObject({
      type: 'input.required',
      request: { id: 'may#2', data: { what: 'delete' } },
    });
  });

  test('is a question of this run once it is asked again', () => {
    const laws = lawsOf(after(...asked, { type: 'turn.submitted', turn: answer }));
    laws.question(request('list'), () => {});
    expect(() => laws.question(request('delete'), () => {})).toThrow(/already answered/);
  });

  test('is not open for another question under its id', () => {
    const { events } = lawsOf(after(...asked)).question(request('delete'), () => {});
    expect(events.at(-1)).toMatchObject({ type: 'input.required', request: { id: 'may#2' } });
  });

  test('that was truncated in the log is recognized', () => {
    const long = request('x'.repeat(2 << 20));
    const stored = truncated({ type: 'input.required', request: long });
    const task = after(asked[0], stored, { type: 'turn.submitted', turn: answer });
    expect(lawsOf(task).question(long, () => {}).answer).toMatchObject({ action: 'accept' });
  });
});
