/**
 * What a reader of a long task costs, for every store: rows of the log that it reads, not time. A
 * client that reconnects reads what it has missed and a fixed number of rows more; one that
 * subscribes anew, or sends a message to a long task, reads a fixed number.
 */
import { expect, test } from 'vitest';
import { Operations } from '../../src/a2a/server/task-operations.ts';
import { readSend } from '../../src/a2a/server/parse-params.ts';
import type { TaskStreamEvent } from '../../src/a2a/server/task-stream.ts';
import type { Agent, AgentEvent } from '../../src/event/types.ts';
import { CHECKPOINT_ENTRIES, CHECKPOINT_PREFIX } from '../../src/task/log/checkpoints.ts';
import { createRunner } from '../../src/task/index.ts';
import { openLog, type Store } from '../../src/task/store/index.ts';

/**
 * A checkpoint is missing for as long as a batch of a writer is, and the next writer may replace
 * one by a later one.
 */
const FIXED_ROWS = 2 * CHECKPOINT_ENTRIES + 512 + 8;

const status = (n: number): AgentEvent => ({ type: 'status', message: `step ${n}` });
const say = (n: number): AgentEvent => ({ type: 'text.delta', id: 't', delta: `word ${n} ` });
const discard: AgentEvent = {
  type: 'retry',
  attempt: 1,
  discard: true,
  error: { code: 'server', message: 'no answer', retryable: true },
};

/** Says and does `n` things, then asks a question. */
const worker: Agent = async function* (turn, ctx) {
  const [part] = turn.parts;
  const n = Number(part && 'text' in part ? part.text : 0);
  for (let i = 0; i < n; i++) {
    yield i % 10 === 0 ? say(i) : status(i);
    if (i === Math.floor(n / 2)) yield discard;
  }
  await ctx.ask({ id: 'q', kind: 'approval', message: 'Go on?' });
  yield say(n);
};

class Counted {
  rows = 0;
  readonly store: Store;

  constructor(store: Store) {
    const read: Store['read'] = async (...args) => {
      const found = await store.read(...args);
      this.rows += found?.rows.length ?? 0;
      return found;
    };
    const values: Store['values'] = async (...args) => {
      const found = await store.values(...args);
      this.rows += found.length;
      return found;
    };
    const counted: Partial<Store> = { read, values };
    this.store = new Proxy(store, {
      get(target, name) {
        const member: unknown = Reflect.get(counted, name) ?? Reflect.get(target, name);
        return typeof member === 'function' ? (member.bind(target) as unknown) : member;
      },
    });
  }

  /** The rows that the work reads. */
  async during(work: () => Promise<unknown>): Promise<number> {
    const before = this.rows;
    await work();
    return this.rows - before;
  }
}

const eventsOf = async (
  batches: AsyncIterable<TaskStreamEvent[]>,
  most = Infinity,
): Promise<TaskStreamEvent[]> => {
  const events: TaskStreamEvent[] = [];
  for await (const batch of batches) {
    events.push(...batch);
    if (events.length >= most) break;
  }
  return events;
};

export function seekContract(name: string, open: () => Promise<Store>): void {
  const asked = async (n: number) => {
    const counted = new Counted(await open());
    const log = openLog(counted.store);
    const runner = createRunner({ log, agents: { w: worker }, suspendAfterMs: 0 });
    const operations = new Operations({ agent: 'w', log, runner });
    const turn = { agent: 'w', task: 't', context: 'c', messageId: 'm' };
    await runner.submit({ ...turn, parts: [{ text: String(n) }] });
    await operations.settled('t', {});
    const answer = () =>
      runner.submit({
        ...turn,
        messageId: 'm2',
        parts: [],
        answers: [{ id: 'q', action: 'accept' }],
      });
    const resumed = async (after: string): Promise<TaskStreamEvent[]> =>
      eventsOf((await operations.subscribe('t', {}, after, {})).batches);
    return {
      counted,
      log,
      operations,
      answer,
      resumed,
      async [Symbol.asyncDispose]() {
        await runner[Symbol.asyncDispose]();
        await log[Symbol.asyncDispose]();
      },
    };
  };

  test(`${name}: a stream that resumes reads what it missed and a fixed number of rows`, async () => {
    await using world = await asked(4000);
    const { counted, log, resumed, answer } = world;
    await answer();
    for await (const _ of log.read('t', 4000));
    const all = await resumed('0');
    expect(all.length).toBeGreaterThan(4000);
    for (const part of [0.1, 0.4, 0.7, 0.99, 1]) {
      const at = Math.ceil((all.length - 1) * part);
      const missed = all.slice(at + 1);
      let got: TaskStreamEvent[] = [];
      const rows = await counted.during(
        async () => (got = await resumed((all[at] as TaskStreamEvent).id)),
      );
      expect(got).toEqual(missed);
      expect(rows).toBeLessThanOrEqual(missed.length + FIXED_ROWS);
    }
  });

  test(`${name}: a subscription and a message to a long task read a fixed number of rows`, async () => {
    await using world = await asked(3000);
    const { counted, log, operations } = world;
    const { batches } = await operations.subscribe('t', {}, undefined, {});
    let opening: TaskStreamEvent[] = [];
    const subscribed = await counted.during(async () => (opening = await eventsOf(batches, 1)));
    expect(opening[0]?.out).toMatchObject({
      task: { status: { state: 'TASK_STATE_INPUT_REQUIRED' } },
    });
    expect(subscribed).toBeLessThanOrEqual(8);
    const answers = [{ id: 'q', action: 'accept' }];
    const message = {
      messageId: 'm2',
      taskId: 't',
      role: 'ROLE_USER',
      parts: [{ data: { answers } }],
    };
    const incoming = readSend({ message }, { maxParts: 10 });
    const turn = await operations.prepare(incoming, {});
    let events: TaskStreamEvent[] = [];
    const streamed = await counted.during(
      async () => (events = await eventsOf(operations.stream(() => operations.submit(turn), {}))),
    );
    expect(events.at(-1)).toMatchObject({
      last: true,
      out: { statusUpdate: { status: { state: 'TASK_STATE_COMPLETED' } } },
    });
    // The agent is called again, and what it has done is read once for it.
    const { seq = 0 } = (await log.get('t')) ?? {};
    expect(streamed).toBeLessThanOrEqual(2 * (seq - 3000) + FIXED_ROWS);
  });

  test(`${name}: agents neither see nor write checkpoints`, async () => {
    const keys: string[] = [];
    let refused: unknown;
    const agent: Agent = async function* (_, ctx) {
      await ctx.storage?.set({ mine: 1 });
      for (let n = 0; n < 3000; n++) yield status(n);
      for await (const [key] of ctx.storage?.list('') ?? []) keys.push(key);
      await ctx.storage?.set({ [`${CHECKPOINT_PREFIX}1`]: 1 }).catch((e: unknown) => (refused = e));
    };
    await using log = openLog(await open());
    await using runner = createRunner({ log, agents: { a: agent } });
    const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm' };
    await runner.submit({ ...turn, parts: [{ text: 'go' }] });
    for await (const _ of log.read('t', 0));
    expect(keys).toEqual(['mine']);
    expect(refused).toMatchObject({ code: 'invalid' });
    const stored: string[] = [];
    for await (const [key] of log.values('t', CHECKPOINT_PREFIX)) stored.push(key);
    expect(stored.length).toBeGreaterThan(2);
  });
}
