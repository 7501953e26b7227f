import type { AgentEvent, OpenCall, TaskEvent, Usage } from './types.ts';

export interface CheckOptions {
  /**
   * The list may stop in the middle of a run: the log is still written, or the run was suspended.
   */
  readonly open?: boolean;
  /** Calls that a suspended run left open before the first event. */
  readonly calls?: readonly Pick<OpenCall, 'callId'>[];
}

/**
 * Returns which laws a list of events breaks: one sentence for each, with the position of the
 * event; empty if it breaks none. Takes one run, as `normalizeAgent` yields it, or a complete log
 * with its notes. It shares no code with the machine that enforces the laws, so that each finds the
 * mistakes of the other. In a log, a block or a step may lack its end if the run was interrupted:
 * its claim holder crashed, or a cancel came first.
 *
 * @example
 * ```ts
 * expect(checkLaws(events)).toEqual([]);
 * ```
 */
export function checkLaws(
  events: readonly TaskEvent[],
  { open = false, calls: inherited = [] }: CheckOptions = {},
): string[] {
  const broken: string[] = [];
  const isLog = events.some((event) => event.type === 'turn.submitted');
  let run: CheckedRun | undefined;
  let canceling = false;
  let ended = false;
  /** Durable steps of the turn that have ended. */
  const stored = new Set<string>();
  let turn: string | undefined;
  const calls = new Set(inherited.map((call) => call.callId));

  events.forEach((event, index) => {
    const report = (law: number, what: string): void => {
      broken.push(`law ${law}, event ${index + 1} (${event.type}): ${what}`);
    };
    if (event.type === 'turn.submitted') return;
    if (event.type === 'cancel.requested') {
      canceling = true;
      return;
    }
    if (ended && !isLog) report(1, 'something follows run.finished');
    if (event.type === 'run.started') {
      if (run && (event.attempt ?? 1) <= run.attempt) report(1, 'the run has started already');
      if (run && !isLog) report(1, 'the run has started already');
      run = newRun(event.attempt ?? 1);
      if (event.turn !== turn) stored.clear();
      turn = event.turn;
      return;
    }
    const endsCanceled =
      canceling && (event.type === 'tool.failed' || event.type === 'run.finished');
    if (!run && !endsCanceled) report(1, 'no run is open');
    if (canceling && /\.delta$|\.args$/.test(event.type)) report(7, 'a delta follows the cancel');
    // The end of a block is dropped with its deltas if a cancel came first.
    const isCut = canceling && event.type === 'tool.called';
    if (run && !isCut) checkBlock(run, event, report);
    checkCall(calls, event, report);
    if (
      event.type === 'step.stored' &&
      (event.status === 'completed' || event.status === 'failed')
    ) {
      if (stored.has(event.id)) report(5, `durable step ${event.id} has ended already`);
      stored.add(event.id);
    }
    if (run) checkStep(run, event, report);
    if (event.type !== 'run.finished') return;
    if (event.outcome !== 'input-required' && calls.size > 0)
      report(4, `open at the end: ${[...calls].join(', ')}`);
    if (canceling && event.outcome !== 'canceled') report(7, `a cancel ended as ${event.outcome}`);
    if (run && !(isLog && event.outcome !== 'completed')) {
      for (const block of run.blocks.values()) report(3, `block ${block.id} is open at the end`);
      for (const step of run.steps.values()) report(5, `step ${step} is open at the end`);
    }
    if (run) checkUsage(run.usage, event.usage ?? {}, report);
    if (event.outcome === 'failed' && !event.error) report(6, 'it failed without an error');
    run = undefined;
    ended = true;
  });

  if (!open && (run || (!isLog && !ended))) broken.push('law 1: the run has no run.finished');
  return broken;
}

type Report = (law: number, what: string) => void;

interface CheckedRun {
  readonly attempt: number;
  readonly blocks: Map<string, { readonly id: string; readonly kind: string; text: string }>;
  readonly blockIds: Set<string>;
  readonly steps: Map<string, number>;
  readonly usage: Map<string, number>;
}

const newRun = (attempt: number): CheckedRun => ({
  attempt,
  blocks: new Map(),
  blockIds: new Set(),
  steps: new Map(),
  usage: new Map(),
});

const speaker = (event: TaskEvent): string =>
  'path' in event && event.path ? event.path.join('\0') : '';

function checkBlock(run: CheckedRun, event: AgentEvent, report: Report): void {
  const who = speaker(event);
  const block = run.blocks.get(who);
  const kind = event.type.split('.')[0] ?? '';
  switch (event.type) {
    case 'text.delta':
    case 'reasoning.delta':
      if (block?.id === event.id && block.kind === kind) {
        block.text += event.delta;
        return;
      }
      if (block) report(3, `block ${block.id} is still open`);
      if (run.blockIds.has(event.id)) report(2, `block ${event.id} has ended`);
      run.blockIds.add(event.id);
      run.blocks.set(who, { id: event.id, kind, text: event.delta });
      return;
    case 'text.end':
    case 'reasoning.end': {
      const text = block?.id === event.id && block.kind === kind ? block.text : undefined;
      if (text === undefined && run.blockIds.has(event.id)) report(2, 'it ends twice');
      if (text === undefined && block) report(3, `block ${block.id} is still open`);
      if ((text ?? '') !== event.text) report(2, 'its text is not the text of its deltas');
      run.blockIds.add(event.id);
      run.blocks.delete(who);
      return;
    }
    case 'tool.called':
      if (block) report(3, `block ${block.id} is open when a tool is called`);
      return;
    default:
      return;
  }
}

function checkCall(calls: Set<string>, event: AgentEvent, report: Report): void {
  switch (event.type) {
    case 'tool.started':
      if (calls.has(event.callId)) report(4, `call ${event.callId} is open already`);
      calls.add(event.callId);
      return;
    case 'tool.called':
      calls.add(event.callId);
      return;
    case 'tool.args':
    case 'tool.progress':
      if (!calls.has(event.callId)) report(4, `call ${event.callId} is not open`);
      return;
    case 'tool.completed':
    case 'tool.failed':
      if (!calls.delete(event.callId)) report(4, `call ${event.callId} is not open`);
      return;
    default:
      return;
  }
}

function checkStep(run: CheckedRun, event: AgentEvent, report: Report): void {
  const who = speaker(event);
  const open = run.steps.get(who);
  if (event.type === 'step.started') {
    if (open !== undefined) report(5, `step ${open} is still open`);
    run.steps.set(who, event.step);
  } else if (event.type === 'step.finished') {
    if (open !== event.step) report(5, `step ${event.step} is not open`);
    run.steps.delete(who);
    for (const [field, n] of Object.entries(event.usage ?? {}))
      run.usage.set(field, (run.usage.get(field) ?? 0) + n);
  }
}

function checkUsage(sum: CheckedRun['usage'], total: Usage, report: Report): void {
  for (const [field, n] of sum) {
    const reported = total[field as keyof Usage] ?? 0;
    if (Math.abs(reported - n) > 1e-9 * Math.max(1, Math.abs(n)))
      report(9, `${field} is ${reported}, the sum of its steps is ${n}`);
  }
}
