import fc from 'fast-check';
import { DuolaneError } from '../../src/errors.ts';
import { advance, nextTurn } from '../../src/event/fold/advance.ts';
import { isFinal } from '../../src/event/index.ts';
import { recoverRun } from '../../src/event/fold/recover-run.ts';
import { RunStateMachine } from '../../src/event/run/run-state-machine.ts';
import type {
  Agent,
  AgentEvent,
  Entry,
  Logger,
  Snapshot,
  TaskEvent,
  Turn,
} from '../../src/event/types.ts';

export const quiet: Logger = { debug() {}, info() {}, warn() {}, error() {} };

export const turnOf = (messageId: string, more: Partial<Turn> = {}): Turn => ({
  agent: 'a',
  task: 't',
  context: 'c',
  messageId,
  parts: [{ text: 'hi' }],
  ...more,
});

const few = (...values: string[]): fc.Arbitrary<string> => fc.constantFrom(...values);
const blockId = few('x', 'y', 'x#2');
const callId = few('c1', 'c2', 'c1#2');
const words = few('a', 'b ', 'ab', '\u{1f600}', '\u0000"', 'a long word ', '');
const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(value, { nil: undefined, freq: 2 });
const usage = fc.record(
  { inputTokens: fc.nat(9), outputTokens: fc.nat(9), costUsd: fc.nat(9) },
  { requiredKeys: [] },
);
const failure = fc.constantFrom<unknown>(
  { code: 'network', message: 'cut', retryable: true },
  { code: 'internal', message: 'secret', retryable: false },
  'no failure at all',
  undefined,
);

const body: fc.Arbitrary<object> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ type: few('text.delta', 'reasoning.delta'), id: blockId, delta: words }),
  },
  fc.record({
    type: few('text.end', 'reasoning.end'),
    id: blockId,
    text: fc.oneof(words, few('ab', 'abab', 'bb a')),
    signature: maybe(words),
  }),
  fc.record({ type: few('step.started', 'step.finished'), step: fc.nat(2), usage: maybe(usage) }),
  fc.record({
    type: few('tool.started', 'tool.called'),
    callId,
    name: few('f', 'g'),
    args: fc.constant({}),
  }),
  fc.record({ type: few('tool.args'), callId, delta: words }),
  fc.record({ type: few('tool.progress'), callId, progress: fc.nat(3) }),
  fc.record({ type: few('tool.completed'), callId, name: few('f', 'g'), output: words }),
  fc.record({ type: few('tool.failed'), callId, name: few('f', 'g'), error: failure }),
  fc.record({ type: few('retry'), attempt: fc.nat(3), error: failure, discard: fc.boolean() }),
  fc.record({ type: few('status'), message: words }),
  fc.record({
    type: few('artifact'),
    artifactId: few('r', 's'),
    parts: fc.array(fc.record({ text: words }), { maxLength: 2 }),
    append: fc.boolean(),
  }),
  fc.record({ type: few('custom'), name: few('n'), data: fc.jsonValue({ maxDepth: 1 }) }),
  fc.record({
    type: few('run.started'),
    sessionId: maybe(few('s1')),
    attempt: maybe(fc.nat(3)),
    discard: maybe(fc.boolean()),
  }),
);
const question = fc.record({
  id: few('c1/ok', 'c2/ok', 'm1/why'),
  kind: fc.constantFrom('approval', 'question', 'auth'),
});
const asking = fc.record({ type: few('input.required'), request: question });
const finish = fc.record({
  type: few('run.finished'),
  outcome: few('completed', 'failed', 'canceled', 'rejected', 'input-required', 'nonsense'),
  text: words,
  usage: maybe(usage),
  error: failure,
  pending: maybe(fc.array(question, { maxLength: 2 })),
});
const rubbish = fc.constantFrom<unknown>(
  null,
  7,
  'text',
  [],
  {},
  { type: 'text.delta' },
  { type: 'turn.submitted' },
  { type: 'text.delta', id: 'x', delta: 'b', at: 'noon', path: 'p' },
  { type: 'input.required', request: {} },
);

/** Any event that an agent might yield, valid or not. */
export const anyYield: fc.Arbitrary<unknown> = fc
  .tuple(
    fc.oneof(
      { weight: 12, arbitrary: body },
      { weight: 3, arbitrary: asking },
      { weight: 1, arbitrary: finish },
      { weight: 1, arbitrary: rubbish },
    ),
    maybe(fc.constantFrom(['sub'], ['sub', 'deeper'])),
  )
  .map(([value, path]) => {
    if (path === undefined || typeof value !== 'object' || value === null) return value;
    return { path, ...value };
  });

/** A script of one run: it yields events, then returns, throws, hangs or continues. */
export interface Script {
  readonly yields: readonly unknown[];
  readonly end: 'return' | 'throw' | 'throw internal' | 'abort error' | 'hang' | 'forever';
}

export const script: fc.Arbitrary<Script> = fc.record({
  yields: fc.array(anyYield, { maxLength: 14 }),
  end: fc.constantFrom('return', 'throw', 'throw internal', 'abort error', 'hang', 'forever'),
});

export function thrownBy(end: Script['end']): unknown {
  if (end === 'throw') return new DuolaneError('rate_limited', 'slow down', { status: 429 });
  if (end === 'abort error') return new DOMException('aborted', 'AbortError');
  return new Error('secret');
}

/** The script as an agent that ignores its signal. */
export const scriptedAgent = ({ yields, end }: Script): Agent =>
  async function* () {
    for (const value of yields) yield value as AgentEvent;
    if (end === 'hang') await new Promise(() => {});
    while (end === 'forever') yield { type: 'text.delta', id: 'x', delta: 'on and on ' };
    if (end !== 'return') throw thrownBy(end);
  };

export const numbered = (event: TaskEvent, seq: number): Entry =>
  ({ ...event, seq, at: event.at ?? 1_700_000_000_000 + seq }) as Entry;

const plan = fc.record({
  runs: fc.array(
    fc.record({ script, stop: maybe(few('canceled', 'timeout', 'suspended', 'death')) }),
    {
      minLength: 1,
      maxLength: 4,
    },
  ),
  continues: fc.boolean(),
  resumable: fc.boolean(),
  further: fc.boolean(),
});

/**
 * Valid logs of complete tasks. Agents that break the laws are normalized and folded by `advance`.
 * They are suspended for a question and resumed, recovered after a crash, canceled, or get another
 * turn.
 */
export const lawfulLog: fc.Arbitrary<readonly Entry[]> = plan.map((chosen) => {
  const entries: Entry[] = [];
  let snapshot: Snapshot | undefined;
  const write = (events: readonly TaskEvent[]): void => {
    for (const event of events) {
      const entry = numbered(event, entries.length + 1);
      snapshot = advance(snapshot, entry);
      entries.push(entry);
    }
  };
  write([{ type: 'turn.submitted', turn: turnOf('m1') }]);
  const { continues, resumable } = chosen;
  for (const [i, { script: steps, stop }] of chosen.runs.entries()) {
    if (!snapshot || isFinal(snapshot.state)) break;
    if (i === 1 && chosen.further) write([{ type: 'turn.submitted', turn: turnOf('m2') }]);
    if (snapshot.pending.length > 0) {
      const answers = snapshot.pending.map(({ id }) => ({ id, action: 'accept' }) as const);
      write([{ type: 'turn.submitted', turn: turnOf(`answer${i}`, { parts: [], answers }) }]);
    }
    const turn = nextTurn(snapshot);
    if (!turn) break;
    const laws = new RunStateMachine({ turn, task: snapshot, continues, logger: quiet });
    const half = Math.floor(steps.yields.length / 2);
    for (const [at, value] of steps.yields.entries()) {
      if (laws.ended) break;
      if (at === half && stop === 'canceled') write([{ type: 'cancel.requested' }]);
      if (at === half && stop && stop !== 'death')
        laws.stop(new DuolaneError(stop as 'timeout', ''));
      if (at === half && stop === 'death') break;
      write(laws.take(value));
    }
    if (stop !== 'death')
      write(laws.end(steps.end === 'return' ? undefined : { error: thrownBy(steps.end) }));
    if (snapshot.running) write(recoverRun(snapshot, { resumable }));
  }
  return entries;
});
