import { expect, test } from 'vitest';
import { growingText } from '../../src/adapters/index.ts';
import {
  a2aEncoder,
  connectA2A,
  type A2AStreamEvent,
  type TextOptions,
} from '../../src/a2a/index.ts';
import { DuolaneError } from '../../src/errors.ts';
import { normalizeAgent, withRetry } from '../../src/event/index.ts';
import type { Agent, TaskEvent } from '../../src/event/types.ts';
import { toA2A, type Served, type ToA2AOptions } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { all, Caller } from '../a2a/support.ts';
import { contextFor } from '../contracts/agent.contract.ts';
import { numbered, turnOf } from '../support/arbitraries.ts';
import { verifies } from '../verifies.ts';

/** An event of protocol 0.3, as far as the patterns of the text are concerned. */
interface Event {
  readonly kind: 'task' | 'status-update' | 'artifact-update';
  readonly final?: boolean;
  readonly status?: {
    readonly state: string;
    readonly message?: {
      readonly messageId: string;
      readonly parts: readonly { readonly text?: string }[];
      readonly metadata?: { readonly timestamp?: string };
    };
  };
  readonly artifact?: {
    readonly artifactId: string;
    readonly name: string;
    readonly parts: readonly { readonly text?: string }[];
  };
  readonly append?: boolean;
  readonly lastChunk?: boolean;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const words = (event: Event | undefined): string =>
  (event?.status?.message ?? event?.artifact)?.parts.map(({ text }) => text ?? '').join('') ?? '';

const serving = (agent: Agent, options: ToA2AOptions = {}): Promise<Served> =>
  toA2A(agent, { log: memoryLog(), ...options });

async function say(served: Served): Promise<readonly Event[]> {
  const seen = await all(new Caller(served.url, '0.3').say('hi'));
  return seen.map(({ result }) => result as unknown as Event);
}

const working = (events: readonly Event[]): readonly Event[] =>
  events.filter(({ status, kind }) => kind === 'status-update' && status?.state === 'working');

const PIECES = ['The quick ', 'brown fox ', 'jumps.'];
const WHOLE = PIECES.join('');

/** All text so far, again and again, as Pydantic AI's `stream_text()` gives it. */
const growing = growingText(async function* () {
  for (let i = 1; i <= PIECES.length; i++) yield PIECES.slice(0, i).join('');
});

const long = Array.from({ length: 65 }, (_, i) => `${String(i).padStart(9, '.')} `).join('');
const telling: Agent = async function* () {
  yield { type: 'status', message: 'Starting...' };
  for (let i = 0; i < long.length; i += 10)
    yield { type: 'text.delta', id: 't', delta: long.slice(i, i + 10) };
};

test('the options of the A2A server are those of the caller, except the text', async () => {
  await using served = await serving(growing, { a2a: { push: false } });
  const response = await fetch(`${served.url}/.well-known/agent-card.json`);
  expect(await response.json()).toMatchObject({ capabilities: { pushNotifications: false } });
  const events = await say(served);
  expect(words(working(events).at(-1))).toBe(WHOLE);
});

test('growing text becomes deltas, each sent once', async () => {
  const events = await all(normalizeAgent(growing)(turnOf('m1'), contextFor().ctx));
  const deltas = events.flatMap((event) => (event.type === 'text.delta' ? [event.delta] : []));
  expect(deltas).toEqual(PIECES);
});

test('text that changes instead of growing fails the run with a reason', async () => {
  const fickle = growingText(async function* () {
    yield 'one';
    yield 'two';
  });
  const events = await all(normalizeAgent(fickle)(turnOf('m1'), contextFor().ctx));
  expect(events.at(-1)).toMatchObject({ outcome: 'failed', error: { code: 'malformed' } });
});

verifies(
  ['S136', 'S138', 'S139', 'S140', 'S141'],
  'growing text: one working message updated in place, then the whole with its time, then completed',
  async () => {
    await using served = await serving(growing, { chars: 1 });
    const events = await say(served);
    const updates = working(events).filter((event) => words(event) !== '');
    // The log may join pieces, so how many updates there are is not said; what each holds is.
    expect(updates.length).toBeGreaterThan(1);
    for (const [i, update] of updates.map(words).entries())
      expect(WHOLE.startsWith(update) && update.startsWith(words(updates[i - 1]))).toBe(true);
    expect(words(updates.at(-1))).toBe(WHOLE);
    expect(new Set(updates.map(({ status }) => status?.message?.messageId)).size).toBe(1);
    const time = updates.at(-1)?.status?.message?.metadata?.timestamp ?? '';
    expect(new Date(time).toISOString()).toBe(time);
    expect(events.at(-1)).toMatchObject({ final: true, status: { state: 'completed' } });
    expect(events.filter(({ final }) => final === true)).toHaveLength(1);
  },
);

verifies(
  ['S143', 'S145'],
  'what was said so far is a working status while the agent still talks, the artifact comes at the end',
  async () => {
    const half = long.slice(0, 400);
    let goOn = (): void => {};
    const seen = new Promise<void>((resolve) => (goOn = resolve));
    const pausing: Agent = async function* () {
      yield { type: 'text.delta', id: 't', delta: half };
      await seen;
      yield { type: 'text.delta', id: 't', delta: long.slice(400) };
    };
    await using served = await serving(pausing);
    const late = setTimeout(goOn, 5000); // if the text is held back, the test must fail, not hang
    const events: Event[] = [];
    for await (const { result } of new Caller(served.url, '0.3').say('hi')) {
      const event = result as unknown as Event;
      events.push(event);
      if (event.status?.state === 'working' && words(event) === half) goOn();
    }
    clearTimeout(late);
    const told = events
      .filter((event) => words(event) !== '')
      .map((event) => `${event.kind} ${event.status?.state ?? ''} ${words(event)}`);
    expect([...new Set(told)]).toEqual([
      `status-update working ${half}`,
      `status-update working ${long}`,
      `artifact-update  ${long}`,
      `status-update completed ${long}`,
    ]);
  },
);

verifies(
  ['S143', 'S145', 'S151', 'S152'],
  'one call serves an agent: working text, an artifact with the whole, completed with it',
  async () => {
    await using served = await serving(telling);
    const events = await say(served);
    expect(words(working(events).find((event) => words(event) !== ''))).toBe('Starting...');
    expect(words(working(events).at(-1))).toBe(long);
    const [artifact, another] = events.filter(({ kind }) => kind === 'artifact-update');
    expect(another).toBeUndefined();
    expect(artifact).toMatchObject({ lastChunk: true, artifact: { name: 'response' } });
    expect(artifact?.artifact?.artifactId).toMatch(UUID);
    expect(words(artifact)).toBe(long);
    expect(events.indexOf(artifact as Event)).toBe(events.length - 2);
    expect(events.at(-1)).toMatchObject({ final: true, status: { state: 'completed' } });
    expect(words(events.at(-1))).toBe(long);
  },
);

/** What the encoder makes of the text when the log joins nothing. */
function encoded(options: TextOptions): readonly A2AStreamEvent[] {
  const { encode } = a2aEncoder(options);
  const deltas = Array.from({ length: 65 }, (_, i): TaskEvent => {
    return { type: 'text.delta', id: 't', delta: long.slice(i * 10, i * 10 + 10) };
  });
  const log: readonly TaskEvent[] = [
    { type: 'turn.submitted', turn: turnOf('m1') },
    { type: 'run.started', turn: 'm1' },
    ...deltas,
    { type: 'text.end', id: 't', text: long },
    { type: 'run.finished', outcome: 'completed', text: long },
  ];
  return log.flatMap((event, i) => [...encode(numbered(event, i + 1))]);
}

verifies(
  ['S149', 'S150'],
  'a preview of 120 characters each time the text passes a multiple of 200',
  () => {
    const events = encoded({ pattern: 'status', chars: 200, preview: 'head120' });
    const previews = events.flatMap((event) => {
      const message = 'statusUpdate' in event ? event.statusUpdate.status.message : undefined;
      return message?.parts.flatMap(({ text = '' }) => (text.endsWith('...') ? [text] : [])) ?? [];
    });
    expect(previews).toEqual(Array.from({ length: 3 }, () => `${long.slice(0, 120)}...`));
  },
);

test('as an artifact: chunks of 200 characters, the last one marked', () => {
  const chunks = encoded({ pattern: 'artifact', chars: 200, artifact: 'result' }).flatMap((event) =>
    'artifactUpdate' in event ? [event.artifactUpdate] : [],
  );
  const pieces = chunks.map(({ artifact }) => artifact.parts[0]?.text ?? '');
  expect(pieces.map(({ length }) => length)).toEqual([200, 200, 200, 50, 0]);
  expect(pieces.join('')).toBe(long);
  expect(chunks.map(({ append = false }) => append)).toEqual([false, true, true, true, true]);
  expect(chunks.map(({ lastChunk = false }) => lastChunk).indexOf(true)).toBe(4);
  expect(new Set(chunks.map(({ artifact }) => artifact.name))).toEqual(new Set(['result']));
});

verifies('S146', 'our client reads the same text from both patterns', async () => {
  for (const text of ['status', 'artifact'] as const) {
    await using served = await serving(telling, { text, artifact: 'result' });
    const client = await connectA2A(served.url);
    const stream = client.stream('hi');
    for await (const _ of stream);
    expect([text, stream.text]).toEqual([text, long]);
  }
});

verifies(
  'S205',
  'a failure after the last attempt: the message says it, and the task ends as failed',
  async () => {
    const broken: Agent = async function* () {
      yield { type: 'text.delta', id: 't', delta: 'half an answer' };
      throw new DuolaneError('overloaded', 'the model is overloaded', { status: 529 });
    };
    await using served = await serving(withRetry(broken, { baseMs: 1 }));
    const events = await say(served);
    expect(events.at(-1)).toMatchObject({ final: true, status: { state: 'failed' } });
    expect(words(events.at(-1))).toBe('the model is overloaded');
    expect(events.filter(({ final }) => final === true)).toHaveLength(1);
    expect(working(events).filter((event) => words(event).includes('trying again'))).toHaveLength(
      2,
    );
  },
);
