import { encodeEntry } from '../entry-codec.ts';
import { failOpenCalls } from '../fold/recover-run.ts';
import { speakerKey } from '../speaker-key.ts';
import type { StepRecord } from '../step-types.ts';
import type { AgentEvent, Entry, OpenCall, Snapshot, Usage } from '../types.ts';
import { addUsage, usageSince } from '../usage.ts';

type Of<Type extends AgentEvent['type']> = Extract<AgentEvent, { readonly type: Type }>;
type Delta = Of<'text.delta' | 'reasoning.delta' | 'tool.args'>;
type BlockEnd = Of<'text.end' | 'reasoning.end'>;

/** What readers of the log have seen: a text, or any other event in a form that can be compared. */
interface SeenItem {
  readonly type: AgentEvent['type'];
  readonly key: string;
  text: string;
  /** The end of a step that says nothing else: the runner writes it when a run is suspended. */
  readonly bareEnd?: Of<'step.finished'>;
}

/**
 * What the earlier runs of a turn have shown, in a form that the next run can be compared with.
 * Blocks do not count, since a suspended run closes them early; only their text does.
 */
export class SeenEvents {
  readonly items: SeenItem[] = [];
  /** Progress of calls, and how often it was seen. A call that is not made again has none. */
  readonly progress: Map<string, number> = new Map();
  readonly #steps = new OpenSteps();
  /** After a retry: what the run is expected to show again. */
  #again: SeenItem[] = [];

  add(entry: Entry): void {
    if (entry.type === 'run.started' && entry.discard) {
      this.items.length = 0;
      this.#steps.clear();
    }
    if (entry.type === 'turn.submitted' || entry.type === 'cancel.requested') return;
    if (isSuspension(entry)) this.#reopenSteps();
    if (this.#steps.add(entry) === 'started again') return;
    if (entry.type === 'retry') this.#addRetry(entry);
    else if (entry.type === 'tool.progress') {
      const line = lineOf(entry);
      this.progress.set(line, (this.progress.get(line) ?? 0) + 1);
    } else if (isDelta(entry)) this.#addText(entry.type, keyOf(entry), entry.delta);
    else if (isShown(entry)) this.#addShown(entry);
  }

  /** A suspended run closes its open steps, and the next one goes on within them. */
  #reopenSteps(): void {
    for (let last = this.items.at(-1); last?.bareEnd; last = this.items.at(-1)) {
      this.items.pop();
      const { step, path } = last.bareEnd;
      this.#steps.add({ type: 'step.started', step, ...(path && { path }) });
    }
  }

  /**
   * A retry repeats the run from its beginning (`withRetry`). If all text before it is void, what
   * remains counts once, and a further run does not repeat the retry itself.
   */
  #addRetry(entry: Of<'retry'> & Entry): void {
    const step = this.items.findLastIndex(({ type }) => type === 'step.started');
    const valid = this.items.filter(
      ({ type }, index) =>
        !(entry.discard && index > step && (type === 'text.delta' || type === 'reasoning.delta')),
    );
    if (valid.every(({ type }) => type === 'status' || type === 'step.started')) {
      this.items.splice(0, Infinity, ...valid);
      this.#again = [...valid];
    }
    // The text that was discarded is gone, so the events before it cannot be compared.
    else this.items.push({ type: 'retry', key: entry.discard ? '' : lineOf(entry), text: '' });
  }

  #addShown(entry: AgentEvent & Entry): void {
    const { type } = entry;
    const key = lineOf(entry);
    if (this.#again[0]?.key === key) this.#again.shift();
    else {
      this.#again = [];
      const isBare = type === 'step.finished' && !entry.usage && !entry.reason;
      this.items.push({ type, key, text: '', ...(isBare && { bareEnd: entry }) });
    }
  }

  #addText(type: Delta['type'], key: string, delta: string): void {
    const last = this.items.at(-1);
    if (last?.key === key) last.text += delta;
    else this.items.push({ type, key, text: delta });
  }
}

/** The open step of each speaker. */
class OpenSteps {
  readonly #open = new Map<string, Of<'step.started'>>();

  /** Takes any event. A run that continues starts the step again in which the last one stopped. */
  add(event: AgentEvent): 'started again' | undefined {
    if (event.type === 'step.finished') this.#open.delete(speakerKey(event.path));
    if (event.type !== 'step.started') return undefined;
    const who = speakerKey(event.path);
    if (this.#open.get(who)?.step === event.step) return 'started again';
    this.#open.set(who, event);
    return undefined;
  }

  clear(): void {
    this.#open.clear();
  }

  values(): Iterable<Of<'step.started'>> {
    return this.#open.values();
  }
}

/** The earlier runs of a turn, as the log has them. */
export interface EarlierRuns {
  /** The last record of each durable step. */
  readonly steps: ReadonlyMap<string, StepRecord>;
  readonly seen: SeenEvents;
}

/**
 * Compares a further run of an agent with what readers have seen. An agent with durable steps
 * usually repeats its events, since it starts over and gets the stored results. Events that repeat
 * what was seen are held back, so that readers see nothing twice. The first new event decides: if
 * everything was repeated, the run goes on after it. Otherwise the agent does something else this
 * time: the earlier text is discarded, and what was held back is shown after all.
 *
 * The ends of parallel calls may come in another order than before, and progress may be missing:
 * the result of a call comes from the log immediately, and only a call that was under way is made
 * again.
 */
export class ReplayFilter {
  readonly #items: readonly SeenItem[];
  readonly #calls: readonly OpenCall[];
  /** Where the comparison is: the item, and how much of its text was repeated. */
  #at = 0;
  #offset = 0;
  /** Items after `#at` that were repeated before it; new ends of calls that wait for the rest. */
  readonly #ahead = new Set<number>();
  #early: AgentEvent[] = [];
  readonly #steps = new OpenSteps();
  readonly #progress: Map<string, number>;
  #start: Of<'run.started'> | undefined;
  /** `#start` was passed on without waiting for the comparison. */
  #isStarted = false;
  #repeated: AgentEvent[] = [];
  #usage: Usage | undefined;
  #state: 'comparing' | 'continuing' | 'started over' = 'comparing';
  /** Text of open blocks that was passed on. */
  readonly #passed = new Map<string, string>();

  /** `calls`: those that the log has open, which fail if the run starts over. */
  constructor({ items, progress }: SeenEvents, calls: readonly OpenCall[]) {
    this.#items = items;
    this.#progress = new Map(progress);
    this.#calls = calls;
  }

  /** Takes an event of the run; returns the events to write. */
  take(event: AgentEvent): AgentEvent[] {
    if (this.#state === 'started over') return [event];
    if (event.type === 'tool.progress' && this.#wasSeen(event))
      return this.#state === 'comparing' ? this.#hold(event) : [];
    if (this.#state === 'continuing') return this.#pass(event);
    if (event.type === 'run.started') {
      this.#start = event;
      return [];
    }
    // A call that was under way may end before the agent has repeated everything that was seen. Its
    // result must not wait for that: the agent may wait for it.
    if (event.type === 'step.stored' && !this.#isComplete) return [...this.#started(false), event];
    if (isBlockEnd(event)) return this.#hold(event);
    if (event.type === 'tool.progress' && !this.#isComplete) return this.#hold(event);
    const next = this.#items[this.#at];
    if (isCallEnd(event) && next && isCallEnd(next)) return this.#compareEnd(event);
    if (this.#early.length > 0 && event.type !== 'run.suspended') return this.#startOver(event);
    if (isDelta(event)) return this.#compareText(event);
    if (this.#isRepeated(event)) {
      this.#at++;
      if (event.type === 'step.finished' && event.usage)
        this.#usage = addUsage(this.#usage, event.usage);
      return this.#hold(event);
    }
    // A run that is stopped while it repeats has nothing new to show.
    const isStop =
      event.type === 'run.suspended' ||
      (event.type === 'run.finished' && event.outcome === 'canceled');
    return isStop || this.#isComplete ? this.#continue(event) : this.#startOver(event);
  }

  get #isComplete(): boolean {
    return this.#at === this.#items.length;
  }

  #hold(event: AgentEvent): AgentEvent[] {
    this.#steps.add(event);
    this.#repeated.push(event);
    return [];
  }

  #isRepeated(event: AgentEvent): boolean {
    const item = this.#items[this.#at];
    return item !== undefined && this.#offset === 0 && isShown(event) && item.key === lineOf(event);
  }

  #wasSeen(event: Of<'tool.progress'>): boolean {
    const line = lineOf(event);
    const count = this.#progress.get(line) ?? 0;
    if (count > 0) this.#progress.set(line, count - 1);
    return count > 0;
  }

  /** Compares the end of a call with the ends that were seen in a row, in any order. */
  #compareEnd(event: AgentEvent): AgentEvent[] {
    const found = this.#findEnd(lineOf(event));
    const nothing = this.#hold(event);
    if (found === undefined) {
      this.#early.push(event);
      return nothing;
    }
    this.#ahead.add(found);
    while (this.#ahead.delete(this.#at)) this.#at++;
    const [first, ...others] = this.#early;
    if (!first || !this.#isComplete) return nothing;
    this.#early = [];
    return [...this.#continue(first), ...others.flatMap((each) => this.#pass(each))];
  }

  #findEnd(key: string): number | undefined {
    for (let index = this.#at; ; index++) {
      const item = this.#items[index];
      if (!item || !isCallEnd(item)) return undefined;
      if (item.key === key && !this.#ahead.has(index)) return index;
    }
  }

  #compareText(event: Delta): AgentEvent[] {
    const item = this.#items[this.#at];
    if (!item) return this.#continue(event);
    const rest = item.text.slice(this.#offset);
    const { delta } = event;
    if (item.key !== keyOf(event)) return this.#startOver(event);
    if (rest.length > delta.length) {
      if (!rest.startsWith(delta)) return this.#startOver(event);
      this.#offset += delta.length;
      return this.#hold(event);
    }
    const isLast = this.#at === this.#items.length - 1;
    if (!delta.startsWith(rest) || (delta !== rest && !isLast)) return this.#startOver(event);
    this.#at++;
    this.#offset = 0;
    if (delta === rest) return this.#hold(event);
    return this.#continue({ ...event, delta: delta.slice(rest.length) });
  }

  #continue(event: AgentEvent): AgentEvent[] {
    this.#state = 'continuing';
    this.#repeated = [];
    return [...this.#started(false), ...this.#steps.values(), ...this.#pass(event)];
  }

  #startOver(event: AgentEvent): AgentEvent[] {
    this.#state = 'started over';
    const repeated = this.#repeated;
    this.#repeated = [];
    const failed = failOpenCalls(this.#calls, 'interrupted');
    return [...this.#started(true), ...failed, ...repeated, event];
  }

  #started(discards: boolean): AgentEvent[] {
    if (!this.#start || (this.#isStarted && !discards)) return [];
    const { discard: _discard, ...start } = this.#start;
    // The log has this start already, so the one that discards is a further attempt.
    const again = this.#isStarted ? { ...start, attempt: (start.attempt ?? 1) + 1 } : start;
    this.#isStarted = true;
    return [discards ? { ...again, discard: true } : again];
  }

  /** The end of a block has the text that was passed on, not what readers had seen before. */
  #pass(event: AgentEvent): AgentEvent[] {
    if (isDelta(event) && event.type !== 'tool.args') {
      const key = blockOf(event);
      this.#passed.set(key, (this.#passed.get(key) ?? '') + event.delta);
    } else if (isBlockEnd(event)) {
      const text = this.#passed.get(blockOf(event));
      this.#passed.delete(blockOf(event));
      return text === undefined ? [] : [{ ...event, text }];
    } else if (event.type === 'run.finished' && this.#usage && event.usage) {
      const { usage: total, ...rest } = event;
      const usage = usageSince(this.#usage, total);
      return [{ ...rest, ...(Object.keys(usage).length > 0 && { usage }) }];
    }
    return [event];
  }
}

/** The task without what an agent that starts over does again: its calls and artifacts. */
export function withoutRun(task: Snapshot): Snapshot {
  const { delivered, current, artifacts } = task;
  const isSame = delivered?.turn === current?.messageId;
  const again = new Set(isSame ? delivered?.artifacts : []);
  return {
    ...task,
    calls: [],
    artifacts: artifacts.filter(({ artifactId }) => !again.has(artifactId)),
  };
}

const isDelta = (event: AgentEvent | Entry): event is Delta =>
  event.type === 'text.delta' || event.type === 'reasoning.delta' || event.type === 'tool.args';

/** Whether the run ends only to wait, and is called again. */
const isSuspension = (event: AgentEvent): boolean =>
  event.type === 'run.suspended' ||
  (event.type === 'run.finished' && event.outcome === 'input-required');

const isBlockEnd = (event: AgentEvent): event is BlockEnd =>
  event.type === 'text.end' || event.type === 'reasoning.end';

const isCallEnd = ({ type }: Pick<AgentEvent, 'type'>): boolean =>
  type === 'tool.completed' || type === 'tool.failed';

/** Whether the event is one that a further run repeats. */
function isShown(event: AgentEvent | Entry): boolean {
  switch (event.type) {
    case 'run.started':
    case 'run.suspended':
    case 'run.finished':
    case 'step.stored':
    case 'input.required':
    case 'text.end':
    case 'reasoning.end':
    case 'tool.progress':
    case 'turn.submitted':
    case 'cancel.requested':
      return false;
    default:
      return true;
  }
}

const keyOf = (event: Delta): string =>
  event.type === 'tool.args'
    ? `${event.type}\n${event.callId}`
    : `${event.type}\n${speakerKey(event.path)}`;

const blockOf = ({ type, id, path }: Exclude<Delta, Of<'tool.args'>> | BlockEnd): string =>
  `${type.split('.', 1)[0]}\n${id}\n${speakerKey(path)}`;

// Times differ in each run, and the log may have members in another order.
function lineOf(event: AgentEvent | Entry): string {
  const members = Object.entries(event)
    .filter(([name, value]) => value !== undefined && !TIMES.has(name))
    .toSorted(([one], [other]) => (one < other ? -1 : 1));
  return encodeEntry(Object.fromEntries(members) as object as Entry);
}

const TIMES = new Set(['at', 'seq', 'ms', 'firstChunkMs']);
