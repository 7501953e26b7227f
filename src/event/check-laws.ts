import type { AgentEvent, OpenCall, TaskEvent, Usage } from './types.ts';

export interface CheckOptions {
  /** The list may stop in the middle of a run: a log that is still written, a run handed back. */
  readonly open?: boolean;
  /** Calls that were left open before the first event, by a run that slept. */
  readonly calls?: readonly Pick<OpenCall, 'callId'>[];
}

/**
 * Which laws a list of events breaks, one sentence each with its place; empty if none. Takes one
 * run, as `lawful` yields it, or a whole log with its notes. Written without the machine that
 * enforces the laws, so that each can find the mistakes of the other. In a log, a run that was
 * cut off (its owner died, a cancel overtook it) may leave a block or a step without its end.
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
      return;
    }
    const settling = canceling && (event.type === 'tool.failed' || event.type === 'run.finished');
    if (!run && !settling) report(1, 'no run is open');
    if (canceling && /\.delta$|\.args$/.test(event.type)) report(7, 'a delta follows the cancel');
    if (run) checkBlock(run, event, report);
    checkCall(calls, event, report);
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
    if (event.outcome === 'failed' && !event.error) report(6, 'it failed and does not say how');
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
      const said = block?.id === event.id && block.kind === kind ? block.text : undefined;
      if (said === undefined && run.blockIds.has(event.id)) report(2, 'it ends twice');
      if (said === undefined && block) report(3, `block ${block.id} is still open`);
      if ((said ?? '') !== event.text) report(2, 'its text is not what its deltas said');
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
    const said = total[field as keyof Usage] ?? 0;
    if (Math.abs(said - n) > 1e-9 * Math.max(1, Math.abs(n)))
      report(9, `${field} is ${said}, its steps say ${n}`);
  }
}
