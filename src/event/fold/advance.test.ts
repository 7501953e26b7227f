import { describe, expect, test } from 'vitest';
import { DuolaneError } from '../../errors.ts';
import { advance, needsRun, nextTurn } from './advance.ts';
import type { AgentEvent, Entry, Part, Snapshot, TaskEvent, Turn } from '../types.ts';

const turn = (messageId = 'm1', more: Partial<Turn> = {}): Turn => ({
  agent: 'a',
  task: 't',
  context: 'c',
  messageId,
  parts: [{ text: 'hi' }],
  ...more,
});
const submitted = (...args: Parameters<typeof turn>): TaskEvent => ({
  type: 'turn.submitted',
  turn: turn(...args),
});
const said = (delta: string, id = 'x'): AgentEvent => ({ type: 'text.delta', id, delta });
const called = (callId: string): AgentEvent => ({
  type: 'tool.called',
  callId,
  name: 'f',
  args: {},
});
const completed = (callId: string): AgentEvent => ({
  type: 'tool.completed',
  callId,
  name: 'f',
  output: 1,
});
const asked = (id: string): AgentEvent => ({
  type: 'input.required',
  request: { id, kind: 'approval' },
});
const answered = (messageId: string, ...ids: string[]): TaskEvent =>
  submitted(messageId, { parts: [], answers: ids.map((id) => ({ id, action: 'accept' })) });
const ended = (outcome: 'completed' | 'failed' | 'canceled' | 'input-required'): AgentEvent => ({
  type: 'run.finished',
  outcome,
  text: '',
});
const started: AgentEvent = { type: 'run.started', turn: 'm1', attempt: 1 };

function fold(...events: TaskEvent[]): Snapshot {
  const all = events.reduce<Snapshot | undefined>(
    (snapshot, event, i) => advance(snapshot, { ...event, seq: i + 1, at: 1000 + i } as Entry),
    undefined,
  );
  return all as Snapshot;
}

// Each entry copies the snapshot member by member: one that is forgotten there does not compile
// here, or is lost.
test('a member that an entry does not change stays the same object', () => {
  const one = turn();
  const full: Required<Snapshot> = {
    task: 't',
    context: 'c',
    agent: 'a',
    owner: 'o',
    seq: 7,
    createdAt: 1,
    updatedAt: 7,
    firstTextAt: 3,
    state: 'working',
    canceling: true,
    running: true,
    attempt: 2,
    sessionId: 's',
    turns: [one],
    omitted: 4,
    current: one,
    unserved: [turn('m2')],
    calls: [{ callId: 'k', name: 'f', args: {} }],
    pending: [],
    answers: [{ id: 'q', action: 'accept' }],
    answered: [{ id: 'q', kind: 'approval' }],
    text: 'so far',
    said: [{ kind: 'response', id: 'm0', text: 'before', turns: 1 }],
    artifacts: [{ artifactId: 'r', parts: [{ text: 'x' }] }],
    delivered: { turn: 'm1', artifacts: ['r'] },
    usage: { inputTokens: 1 },
    error: { code: 'internal', message: 'x', retryable: false },
    steps: { from: 3, attempt: 2 },
    waits: [{ id: 'w', kind: 'event' }],
    suspended: true,
    mark: { text: '' } as never,
  };
  const next = advance(full, { type: 'custom', name: 'n', data: {}, seq: 8, at: 9 });
  expect(next).toEqual({ ...full, seq: 8, updatedAt: 9 });
});

describe('earlier messages', () => {
  const run = (id: string, text: string): TaskEvent[] => [
    submitted(id),
    { type: 'run.started', turn: id },
    said(text),
  ];

  test('the text of a run becomes a message when the next one starts, at its position between the turns', () => {
    const done = ended('completed');
    const { said: before, text } = fold(
      ...run('m1', 'one'),
      submitted('m2'),
      done,
      submitted('m3'),
      { type: 'run.started', turn: 'm2' },
      said('two'),
      done,
      { type: 'run.started', turn: 'm3' },
    );
    expect(before).toEqual([
      { kind: 'response', id: 'm1', text: 'one', turns: 2 },
      { kind: 'response', id: 'm2', text: 'two', turns: 3 },
    ]);
    expect(text).toBe('');
  });

  test('an answered question stays as a message', () => {
    const request = { id: 'q', kind: 'question', message: 'Who?' } as const;
    const snapshot = fold(
      ...run('m1', ''),
      { type: 'input.required', request },
      answered('a', 'q'),
    );
    expect(snapshot.said).toEqual([{ kind: 'question', id: 'q', text: 'Who?', turns: 1 }]);
  });

  test('a long conversation keeps its newest messages, by number and by size', () => {
    const talk = (count: number, text: string): Snapshot => {
      const turns = Array.from({ length: count }, (_, index) => `m${index}`);
      const runs = turns.flatMap((id) => [
        { type: 'run.started', turn: id } as const,
        said(`${id} ${text}`),
        ended('completed'),
      ]);
      return fold(...turns.map((id) => submitted(id)), ...runs);
    };
    const many = talk(150, '').said ?? [];
    expect([many.length, many.at(-1)?.id]).toEqual([100, 'm148']);
    const long = talk(10, 'x'.repeat(100_000)).said ?? [];
    expect(long.map(({ id }) => id)).toEqual(['m7', 'm8']);
  });
});

describe('a question without an asker', () => {
  const waits = (...ids: string[]): AgentEvent => ({
    type: 'run.finished',
    outcome: 'input-required',
    text: '',
    pending: ids.map((id) => ({ id, kind: 'approval' })),
  });

  test('is withdrawn when its run ends as input-required without naming it', () => {
    const snapshot = fold(submitted(), started, asked('gone'), asked('kept'), waits('kept'));
    expect(snapshot.pending).toMatchObject([{ id: 'kept' }]);
    const served = advance(snapshot, { ...answered('m2', 'kept'), seq: 6, at: 0 } as Entry);
    expect([served.state, needsRun(served)]).toEqual(['working', true]);
  });

  test('stays if an open call asked it', () => {
    const { pending } = fold(
      submitted(),
      started,
      called('c'),
      asked('c/ok'),
      asked('q'),
      waits('q'),
    );
    expect(pending.map(({ id }) => id)).toEqual(['c/ok', 'q']);
  });
});

function refusal(...events: TaskEvent[]): DuolaneError {
  const before = fold(...events.slice(0, -1));
  const kept = structuredClone(before);
  let refused: unknown;
  try {
    advance(before, { ...events.at(-1), seq: before.seq + 1, at: 0 } as Entry);
  } catch (error) {
    refused = error;
  }
  expect(refused).toBeInstanceOf(DuolaneError);
  expect(before, 'a refused entry changes nothing').toEqual(kept);
  return refused as DuolaneError;
}

describe('the fold', () => {
  test('goes from submitted to working to its outcome', () => {
    expect(fold(submitted()).state).toBe('submitted');
    expect(fold(submitted(), started)).toMatchObject({ state: 'working', running: true });
    const end = fold(submitted(), started, said('a'), said('b'), ended('completed'));
    expect(end).toMatchObject({ state: 'completed', running: false, text: 'ab', seq: 5 });
    expect(end).toMatchObject({ createdAt: 1000, firstTextAt: 1002, updatedAt: 1004 });
  });

  test('keeps the text of a sub-agent out of the text', () => {
    const inner = { ...said('psst'), path: ['helper'] } as AgentEvent;
    const snapshot = fold(submitted(), started, inner);
    expect(snapshot.text).toBe('');
    expect(snapshot.firstTextAt).toBeUndefined();
  });

  test('a retry with discard drops the text of its step only', () => {
    const retry = (discard: boolean): AgentEvent => ({
      type: 'retry',
      attempt: 2,
      error: { code: 'network', message: '', retryable: true },
      discard,
    });
    const steps: AgentEvent[] = [
      { type: 'step.started', step: 1 },
      said('one '),
      { type: 'step.finished', step: 1 },
      { type: 'step.started', step: 2 },
      said('tw'),
    ];
    expect(fold(submitted(), started, ...steps, retry(true), said('two')).text).toBe('one two');
    expect(fold(submitted(), started, ...steps, retry(false), said('o')).text).toBe('one two');
    expect(fold(submitted(), started, ...steps, retry(true)).attempt).toBe(1);
  });

  test('a run that starts again keeps its text, unless it discards it', () => {
    const again = (discard?: true): AgentEvent => ({
      type: 'run.started',
      turn: 'm1',
      attempt: 2,
      ...(discard && { discard }),
    });
    expect(fold(submitted(), started, said('a'), again(), said('b')).text).toBe('ab');
    expect(fold(submitted(), started, said('a'), again(true), said('b')).text).toBe('b');
  });

  test('usage is summed over steps and runs, and an end has the total of its attempt', () => {
    const step = (inputTokens: number): AgentEvent => ({
      type: 'step.finished',
      step: 1,
      usage: { inputTokens },
    });
    const end: AgentEvent = {
      type: 'run.finished',
      outcome: 'completed',
      text: '',
      usage: { inputTokens: 5, costUsd: 0.5 },
    };
    const dead = fold(submitted(), started, step(2), step(3));
    expect(dead.usage).toEqual({ inputTokens: 5 });
    const twice: TaskEvent[] = [submitted(), submitted('m2'), started, step(2), step(3), end];
    const second: AgentEvent = { type: 'run.started', turn: 'm2', attempt: 1 };
    expect(fold(...twice, second, step(5), end).usage).toEqual({ inputTokens: 10, costUsd: 1 });
  });

  test('artifacts are replaced, or appended to', () => {
    const artifact = (text: string, append: boolean): AgentEvent => ({
      type: 'artifact',
      artifactId: 'r',
      name: 'report',
      parts: [{ text }],
      append,
    });
    const { artifacts } = fold(submitted(), started, artifact('a', true), artifact('b', true));
    expect(artifacts).toEqual([
      { artifactId: 'r', name: 'report', parts: [{ text: 'a' }, { text: 'b' }] },
    ]);
    expect(JSON.parse(JSON.stringify(artifacts))).toEqual(artifacts);
    expect(
      fold(submitted(), started, artifact('a', true), artifact('b', false)).artifacts,
    ).toMatchObject([{ parts: [{ text: 'b' }] }]);
  });

  test('appending to an artifact does not copy it, and leaves earlier snapshots as they were', () => {
    const parts: Part[] = [{ text: 'x' }];
    const event: AgentEvent = { type: 'artifact', artifactId: 'r', parts, append: true };
    let snapshot = fold(submitted(), started);
    let early: Snapshot | undefined;
    const count = 40_000;
    const begin = process.cpuUsage();
    for (let i = 0; i < count; i++) {
      snapshot = advance(snapshot, { ...event, seq: snapshot.seq + 1, at: 0 });
      if (i === 9) early = snapshot;
    }
    // Copying would move 800 million parts: some 14 s of work, against 0.3 s.
    expect(process.cpuUsage(begin).user / 1e6).toBeLessThan(5);
    expect(snapshot.artifacts[0]?.parts).toHaveLength(count);
    expect(early?.artifacts[0]?.parts).toHaveLength(10);
  });
});

describe('waiting for a person', () => {
  const asking = [submitted(), started, called('c1'), asked('c1/ok'), asked('m1/why')];

  test('the task waits until all is answered, and only the first answer counts', () => {
    expect(fold(...asking).state).toBe('input-required');
    const one = fold(...asking, answered('m2', 'c1/ok'));
    expect(one).toMatchObject({ state: 'input-required', pending: [{ id: 'm1/why' }] });
    const all = fold(...asking, answered('m2', 'c1/ok'), answered('m3', 'm1/why', 'c1/ok', 'who'));
    expect(all).toMatchObject({ state: 'working', pending: [] });
    expect(all.answers.map((answer) => answer.id)).toEqual(['c1/ok', 'm1/why']);
  });

  test('a request to authenticate shows as auth-required', () => {
    const auth: AgentEvent = { type: 'input.required', request: { id: 'm1/a', kind: 'auth' } };
    expect(fold(submitted(), started, auth).state).toBe('auth-required');
  });

  test('an answer is spent when its call closes, any other when its run ends and does not wait', () => {
    const all = [...asking, answered('m2', 'c1/ok', 'm1/why')];
    const closed = fold(...all, completed('c1'));
    expect(closed.answers.map((answer) => answer.id)).toEqual(['m1/why']);
    expect(fold(...all, ended('input-required')).answers).toHaveLength(2);
    expect(fold(...all, completed('c1'), ended('completed')).answers).toEqual([]);
  });

  test('closing the call that asked withdraws its question', () => {
    const closed = fold(submitted(), started, called('c1'), asked('c1/ok'), completed('c1'));
    expect(closed).toMatchObject({ state: 'working', pending: [] });
  });

  test('closing a call keeps the questions and answers of a call whose id starts with its id', () => {
    const request = { id: 'c1/x/ok', kind: 'approval' as const, callId: 'c1/x' };
    const both = [submitted(), started, called('c1'), called('c1/x')];
    const open = [...both, { type: 'input.required', request } as const];
    expect(fold(...open, completed('c1')).pending).toEqual([request]);
    const decided = fold(...open, answered('m2', 'c1/x/ok'), completed('c1'));
    expect(decided.answers.map(({ id }) => id)).toEqual(['c1/x/ok']);
    expect(decided.answered).toEqual([request]);
  });

  test('a suspended task needs a run of its turn once nothing is pending', () => {
    const asleep = [...asking, ended('input-required')];
    expect(fold(...asleep)).toMatchObject({ state: 'input-required', running: false });
    expect(needsRun(fold(...asleep))).toBe(false);
    const awake = fold(...asleep, answered('m2', 'c1/ok', 'm1/why'));
    expect(needsRun(awake)).toBe(true);
    expect(nextTurn(awake)?.messageId).toBe('m1');
  });

  test('another turn drops the questions of the suspended run, but not those of its open calls', () => {
    const asleep = [...asking, ended('input-required'), submitted('m2')];
    expect(nextTurn(fold(...asleep))?.messageId).toBe('m2');
    const next = fold(...asleep, { type: 'run.started', turn: 'm2', attempt: 1 });
    expect(next.pending.map((request) => request.id)).toEqual(['c1/ok']);
  });
});

describe('the end', () => {
  test('a turn that is not served yet keeps the task open', () => {
    const first = fold(submitted(), started, submitted('m2'), ended('completed'));
    expect(first).toMatchObject({ state: 'submitted', unserved: [{ messageId: 'm2' }] });
    expect(needsRun(first)).toBe(true);
    expect(fold(submitted(), started, submitted('m2'), ended('failed')).state).toBe('submitted');
  });

  test('a cancel is final even if a turn is unserved', () => {
    const cancel: TaskEvent = { type: 'cancel.requested' };
    const open = fold(submitted(), started, submitted('m2'), cancel);
    expect(open).toMatchObject({ state: 'working', canceling: true });
    const end = fold(submitted(), started, submitted('m2'), cancel, ended('canceled'));
    expect(end.state).toBe('canceled');
    expect(needsRun(end)).toBe(false);
    expect(fold(submitted(), cancel, ended('canceled')).state).toBe('canceled');
  });
});

describe('the entry rules refuse', () => {
  const cancel: TaskEvent = { type: 'cancel.requested' };
  const cases: [string, TaskEvent[], RegExp][] = [
    ['an event before its run', [submitted(), said('x')], /none is open/],
    ['an end between runs', [submitted(), ended('completed')], /none is open/],
    [
      'a second run',
      [submitted(), submitted('m2'), started, { ...started, turn: 'm2' } as never],
      /m1 has not ended/,
    ],
    ['the same attempt twice', [submitted(), started, started], /higher number than 1/],
    [
      'a run of an unknown turn',
      [submitted(), { type: 'run.started', turn: 'no' }],
      /message id no/,
    ],
    ['a message sent twice', [submitted(), submitted()], /already has message m1/],
    ['a turn of another task', [submitted(), submitted('m2', { task: 'u' })], /for task u/],
    ['a delta after a cancel', [submitted(), started, cancel, said('x')], /no delta follows/],
    [
      'another end after a cancel',
      [submitted(), started, cancel, ended('completed')],
      /as canceled/,
    ],
    ['a call opened twice', [submitted(), started, called('c'), called('c')], /call c is open/],
    [
      'a call closed twice',
      [submitted(), started, called('c'), completed('c'), completed('c')],
      /exactly once/,
    ],
    [
      'an end with an open call',
      [submitted(), started, called('c'), ended('completed')],
      /close it first/,
    ],
    ['a question asked twice', [submitted(), started, asked('q'), asked('q')], /pending already/],
    [
      'a wait without a question',
      [submitted(), started, ended('input-required')],
      /without an open question/,
    ],
  ];
  test.each(cases)('%s', (_name, events, rule) => {
    const { code, message } = refusal(...events);
    expect(code).toBe('invalid');
    expect(message).toMatch(rule);
    expect(message).toMatch(/invalid entry \d+ \(.+\) of task t: /);
  });

  test('anything after the end, with closed', () => {
    const { code, message } = refusal(submitted(), started, ended('completed'), submitted('m2'));
    expect(code).toBe('closed');
    expect(message).toContain('ended as completed');
  });

  test('a gap, and a log that does not begin with a turn', () => {
    expect(() => advance(fold(submitted()), { ...started, seq: 3, at: 0 })).toThrow(/without gaps/);
    expect(() => advance(undefined, { ...started, seq: 1, at: 0 })).toThrow(/must begin with/);
  });
});
