import { checkLaws } from '../../../src/event/check-laws.ts';
import { DuolaneError } from '../../../src/errors.ts';
import { isFinal } from '../../../src/event/index.ts';
import type { Entry } from '../../../src/event/types.ts';
import type { World } from '../world.ts';
import { pause } from './agents.ts';
import type { Database } from './database.ts';
import type { Happening, Plan } from './plan.ts';
import type { Replica } from './replica.ts';

/** What the laws of the log need of a plan. */
type CheckedPlan = Pick<Plan, 'agents' | 'runner' | 'callFaults' | 'happenings'>;

/** Reads a task as a client does, and compares what it gets with the database. */
export async function follow(
  world: World,
  db: Database,
  replica: Replica,
  { task, after: from, pauseMs, leaves }: Happening & { readonly do: 'read' },
): Promise<void> {
  const controller = new AbortController();
  const leave = leaves?.after ?? Infinity;
  if (leaves?.how === 'abort' && leave === 0) controller.abort();
  let after = from;
  let count = 0;
  for await (const entry of replica.log.read(task, from, { signal: controller.signal })) {
    if (entry.seq !== ++after)
      world.broken('a reader sees no gap', `${task}: ${entry.seq} instead of ${after}`);
    const stored = db.entries.get(task)?.[entry.seq - 1];
    if (!stored) world.broken('an entry is durable before it is read', `${task} ${after}`);
    else if (JSON.stringify(stored) !== JSON.stringify(entry))
      world.broken('a reader sees what is stored', `${task} ${after}`);
    if (++count >= leave) {
      if (leaves?.how === 'break') return;
      if (leaves?.how === 'throw') throw new DuolaneError('canceled', 'the reader throws');
      controller.abort();
    }
    if (pauseMs > 0) await pause(pauseMs, undefined);
  }
  const snapshot = db.get(task);
  if (!snapshot || !isFinal(snapshot.state) || snapshot.seq !== after)
    world.broken('a reader ends after the final entry', `${task} at ${after}`);
}

/**
 * Checks the log of every task. `texts`: what the agent of each turn said. `canceled`: the tasks
 * whose cancel was accepted.
 */
export function checkLog(
  world: World,
  plan: CheckedPlan,
  db: Database,
  texts: ReadonlyMap<string, string>,
  canceled: ReadonlySet<string>,
): void {
  for (const [task, entries] of db.entries) {
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
        const text = texts.get(`${task} ${turn}`);
        if (entry.outcome === 'completed' && text !== entry.text)
          world.broken('the text of a run is that of its agent', `"${entry.text}", "${text}"`);
        const code = entry.error?.code;
        if (entry.outcome === 'failed' && !mayFail(plan, db.get(task)?.agent, code))
          world.broken('a run fails for a reason', `${task}: ${code} ${entry.error?.message}`);
      }
    }
    const state = db.get(task)?.state;
    if (canceled.has(task) && state !== 'canceled')
      world.broken('a cancel that was accepted cancels', `${task} is ${state}`);
    if (state !== undefined && isFinal(state) && entries.at(-1) !== last)
      world.broken('the final event is the last', `${task}: ${entries.at(-1)?.type}`);
  }
}

function mayFail(plan: CheckedPlan, name: string | undefined, code: string | undefined): boolean {
  const agent = plan.agents.find((each) => each.name === name);
  if (code === 'timeout') return plan.runner.timeoutMs !== undefined;
  // Its time was over while it waited for a store that failed: the error is that of the store.
  if (code === 'server') return plan.runner.timeoutMs !== undefined && hasFaults(plan);
  if (code === 'internal') return agent?.actions.some((action) => action.do === 'throw') === true;
  return code === 'interrupted' && hasFaults(plan);
}

const FAULTS = new Set(['kill', 'stop', 'drain', 'cut', 'down', 'clock']);

/** The longest that a call may be held back in a run that is still prompt. */
const PROMPT_STALL_MS = 300;

/** Whether at most replies are lost: then a note reaches its agent in time. */
export const isPrompt = ({ callFaults, happenings }: CheckedPlan): boolean =>
  callFaults.every(
    ({ how, ms }) => how === 'after' || (how === 'stall' && ms <= PROMPT_STALL_MS),
  ) && !happenings.some((it) => FAULTS.has(it.do));

export const hasFaults = ({ callFaults, happenings }: CheckedPlan): boolean =>
  callFaults.length > 0 || happenings.some((it) => FAULTS.has(it.do));
