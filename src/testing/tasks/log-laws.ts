import { DuolaneError, type ErrorCode } from '../../errors.ts';
import { checkLaws } from '../../event/check-laws.ts';
import { isFinal } from '../../event/fold/entry-rules.ts';
import type { Entry } from '../../event/types.ts';
import type { World } from '../kernel/world.ts';
import type { ReaderEnd } from './agent-schedule.ts';
import type { Replica } from './replica.ts';
import type { SimulatedStore } from './simulated-store.ts';

/** A reader of a task. It reads after entry `from`, and waits so long after each entry. */
export interface SimulatedReader {
  readonly task: string;
  readonly from: number;
  readonly pauseMs: number;
  readonly ends?: ReaderEnd;
}

const READER_ERROR = 'the reader throws';

/** The codes with which a reader may end. */
const READER_CODES: readonly ErrorCode[] = ['closed', 'invalid', 'canceled', 'server', 'not_found'];

/** Reads a task as a client does, and compares what it gets with the store. Never rejects. */
export async function followTaskLog(
  world: World,
  store: SimulatedStore,
  replica: Replica,
  reader: SimulatedReader,
): Promise<void> {
  try {
    await follow(world, store, replica, reader);
  } catch (error) {
    const failure = DuolaneError.from(error);
    if (!READER_CODES.includes(failure.code) && failure.message !== READER_ERROR)
      world.broken('every failure is typed', String(failure.stack));
    if (failure.code === 'closed' && replica.isAlive)
      world.broken('a reader ends with its task', `${reader.task}: ${failure.message}`);
  }
}

async function follow(
  world: World,
  store: SimulatedStore,
  replica: Replica,
  { task, from, pauseMs, ends }: SimulatedReader,
): Promise<void> {
  const controller = new AbortController();
  const most = ends?.entries ?? Infinity;
  if (ends?.how === 'abort' && most === 0) controller.abort();
  let after = from;
  let count = 0;
  for await (const entry of replica.log.read(task, from, { signal: controller.signal })) {
    if (entry.seq !== ++after)
      world.broken('a reader sees no gap', `${task}: ${entry.seq} instead of ${after}`);
    const stored = store.entries.get(task)?.[entry.seq - 1];
    if (!stored) world.broken('an entry is durable before it is read', `${task} ${after}`);
    else if (JSON.stringify(stored) !== JSON.stringify(entry))
      world.broken('a reader sees what is stored', `${task} ${after}`);
    if (++count >= most) {
      if (ends?.how === 'break') return;
      if (ends?.how === 'throw') throw new DuolaneError('canceled', READER_ERROR);
      controller.abort();
    }
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  const snapshot = store.get(task);
  if (!snapshot || !isFinal(snapshot.state) || snapshot.seq !== after)
    world.broken('a reader ends after the final entry', `${task} at ${after}`);
}

/** What `checkTaskLogs` knows beside the log. */
export interface LogFacts {
  /** The tasks whose cancel was accepted. */
  readonly canceled: ReadonlySet<string>;
  /** The text of the agent of each turn, by task and message id; without it, not checked. */
  readonly texts?: ReadonlyMap<string, string>;
  /** Whether a run of this agent may fail with this code. */
  readonly mayFail: (agent: string | undefined, code: string | undefined) => boolean;
}

/** Checks the log of every task. */
export function checkTaskLogs(
  world: World,
  store: SimulatedStore,
  { canceled, texts, mayFail }: LogFacts,
): void {
  for (const [task, entries] of store.entries) {
    for (const law of checkLaws(entries)) world.broken('the contract of events', `${task}: ${law}`);
    const messages = new Set<string>();
    let turn = '';
    let canceling = false;
    let last: Entry | undefined;
    for (const entry of entries) {
      if (entry.type === 'cancel.requested') canceling = true;
      if (entry.type === 'run.started') turn = entry.turn ?? '';
      if (entry.type === 'turn.submitted') {
        if (messages.has(entry.turn.messageId))
          world.broken('a message is one turn', entry.turn.messageId);
        messages.add(entry.turn.messageId);
      }
      if (entry.type === 'run.finished') {
        last = entry;
        if (canceling && entry.outcome !== 'canceled')
          world.broken('a cancel before the end cancels', `${task} ended as ${entry.outcome}`);
        const text = texts?.get(`${task} ${turn}`);
        if (texts && entry.outcome === 'completed' && text !== entry.text)
          world.broken('the text of a run is that of its agent', `"${entry.text}", "${text}"`);
        const code = entry.error?.code;
        if (entry.outcome === 'failed' && !mayFail(store.get(task)?.agent, code))
          world.broken('a run fails for a reason', `${task}: ${code} ${entry.error?.message}`);
      }
    }
    const state = store.get(task)?.state;
    if (canceled.has(task) && state !== 'canceled')
      world.broken('a cancel that was accepted cancels', `${task} is ${state}`);
    if (state !== undefined && isFinal(state) && entries.at(-1) !== last)
      world.broken('the final event is the last', `${task}: ${entries.at(-1)?.type}`);
  }
}
