import type { AgentContext, Entry, Turn } from '../../../src/event/types.ts';
import type { Machine, World } from '../world.ts';
import type { Database } from './database.ts';

/** One call of an agent. */
export interface AgentCall {
  readonly turn: Turn;
  readonly machine: Machine;
  readonly signal: AbortSignal;
  text: string;
  finished: boolean;
}

interface StoredStep {
  readonly status: string;
  readonly output: unknown;
}

/** A question, or event, that a call of an agent waits for. */
interface OpenQuestion {
  readonly machine: Machine;
  readonly signal: AbortSignal;
}

/** What agents did and got, and what the database has. Each method checks a law. */
export class Ledger {
  readonly #world: World;
  readonly #clocksMove: boolean;
  readonly #isQuiet: boolean;
  readonly #db: Database;
  readonly active: Set<AgentCall> = new Set();
  /** The text of the agent calls that ran to their end, by turn. */
  readonly texts: Map<string, string> = new Map();
  readonly #turnOf = new Map<string, string>();
  /** The attempts of steps that each call of an agent has begun. */
  readonly #begun = new WeakMap<AgentContext, Set<string>>();
  readonly #steps = new Map<string, StoredStep>();
  readonly #until = new Map<string, number>();
  readonly #runs = new Map<string, number>();
  readonly #answers = new Map<string, unknown[]>();
  readonly #open = new Map<string, OpenQuestion>();
  readonly #promptMs: number | undefined;

  /**
   * `isQuiet`: only a cancel can end a claim before its machine notices. `promptMs`: how long a note
   * may take to its agent, if no fault can hold it back for longer.
   */
  constructor(
    world: World,
    db: Database,
    {
      clocksMove,
      isQuiet,
      promptMs,
    }: {
      readonly clocksMove: boolean;
      readonly isQuiet: boolean;
      readonly promptMs: number | undefined;
    },
  ) {
    this.#promptMs = promptMs;
    this.#isQuiet = isQuiet;
    this.#db = db;
    this.#world = world;
    this.#clocksMove = clocksMove;
  }

  /** Takes each entry as it is committed. */
  commit(entry: Entry, task: string): void {
    if (entry.type === 'run.started') {
      const turn = entry.turn ?? '';
      this.#turnOf.set(task, turn);
    }
    if (entry.type === 'turn.submitted')
      for (const { id, content } of entry.turn.answers ?? []) {
        const key = `${task} ${id}`;
        this.#answers.set(key, [...(this.#answers.get(key) ?? []), content]);
        this.#expectAnswer(key);
      }
    if (entry.type === 'cancel.requested') this.#expectAbort(task);
    if (entry.type !== 'step.stored') return;
    const key = `${task} ${this.#turnOf.get(task)} ${entry.id}`;
    if (entry.kind === 'sleep' && entry.until !== undefined) this.#until.set(key, entry.until);
    if (entry.status !== 'completed' && entry.status !== 'failed') return;
    if (this.#steps.has(key)) this.#world.broken('a step is stored once', key);
    this.#steps.set(key, { status: entry.status, output: entry.output });
  }

  enter(turn: Turn, { signal }: AgentContext): AgentCall {
    const machine = this.#world.current;
    for (const other of this.active)
      if (other.machine === machine && other.turn.task === turn.task && !other.signal.aborted)
        this.#world.broken('a task has one run on a machine', `${turn.task} on ${machine.name}`);
    if (this.#isQuiet && !signal.aborted && !this.#mayRun(turn.task, machine))
      this.#world.broken('an agent is called with a claim', `${turn.task} on ${machine.name}`);
    const call = { turn, machine, signal, text: '', finished: false };
    this.active.add(call);
    return call;
  }

  #mayRun(task: string, machine: Machine): boolean {
    return this.#db.holders.get(task) === machine || this.#db.isCanceledUnseen(task, machine);
  }

  leave(call: AgentCall): void {
    this.active.delete(call);
    if (!call.finished) return;
    const key = `${call.turn.task} ${call.turn.messageId}`;
    const before = this.texts.get(key);
    if (before !== undefined && before !== call.text)
      this.#world.broken('an agent that is called again gets the same', `${before} / ${call.text}`);
    this.texts.set(key, call.text);
  }

  /** Returns a value that no other execution returns. */
  stepBegins(turn: Turn, id: string, key: string, attempt: number, ctx: AgentContext): string {
    const name = `${turn.task} ${turn.messageId} ${id}`;
    // A process that was stopped past its lease does not know yet that it lost the task.
    if (this.#steps.has(name) && this.#db.holders.get(turn.task) === this.#world.current)
      this.#world.broken('a step does not run after its result is stored', name);
    if (ctx.signal.aborted) this.#world.broken('no step begins after the run was stopped', name);
    if (!key.includes(encodeURIComponent(turn.messageId)))
      this.#world.broken('the key of a step names its turn', `${key} of ${name}`);
    const runs = (this.#runs.get(name) ?? 0) + 1;
    this.#runs.set(name, runs);
    const begun = this.#begun.get(ctx) ?? new Set();
    this.#begun.set(ctx, begun);
    if (begun.has(`${id} ${attempt}`))
      this.#world.broken('an attempt runs once in a call of its agent', `${name} ${attempt}`);
    begun.add(`${id} ${attempt}`);
    return `${id}#${runs}`;
  }

  stepEnds(turn: Turn, id: string, output: unknown): void {
    const name = `${turn.task} ${turn.messageId} ${id}`;
    const stored = this.#steps.get(name);
    if (!stored) this.#world.broken('a result is durable before the agent gets it', name);
    else if (stored.output !== output)
      this.#world.broken(
        'an agent gets the stored result',
        `${name}: ${String(output)}, stored ${String(stored.output)}`,
      );
  }

  /** An agent begins to wait for an answer. */
  asks(task: string, id: string, signal: AbortSignal): void {
    const key = `${task} ${id}`;
    this.#open.set(key, { machine: this.#world.current, signal });
    if (this.#answers.has(key)) this.#expectAnswer(key);
  }

  /** A heartbeat reported that another machine has the task. */
  lost(task: string, machine: Machine): void {
    if (this.#db.holders.get(task) === machine) return;
    for (const { turn, machine: on, signal } of this.active)
      if (turn.task === task && on === machine && !signal.aborted)
        this.#world.broken('a lost claim stops its run', `${task} on ${machine.name}`);
  }

  #expectAnswer(key: string): void {
    const open = this.#open.get(key);
    if (!open || this.#promptMs === undefined) return;
    this.#world.after(this.#promptMs, this.#world.outside, 'expect an answer', () => {
      if (this.#open.get(key) === open && !open.signal.aborted && !open.machine.dead)
        this.#world.broken('an answer reaches the agent that waits for it', key);
    });
  }

  #expectAbort(task: string): void {
    for (const call of this.active)
      if (call.turn.task === task && this.#promptMs !== undefined)
        this.#world.after(this.#promptMs, this.#world.outside, 'expect an abort', () => {
          if (this.active.has(call) && !call.signal.aborted && !call.machine.dead)
            this.#world.broken('a cancel reaches its agent', task);
        });
  }

  answered(task: string, id: string, content: unknown): void {
    this.#open.delete(`${task} ${id}`);
    const known = this.#answers.get(`${task} ${id}`) ?? [];
    if (!known.includes(content))
      this.#world.broken('an answer belongs to its question', `${id}: ${String(content)}`);
  }

  slept(turn: Turn, id: string): void {
    const until = this.#until.get(`${turn.task} ${turn.messageId} ${id}`);
    if (until === undefined) this.#world.broken('a wait is durable before it begins', id);
    else if (!this.#clocksMove && Date.now() < until)
      this.#world.broken('no sleep ends early', `${id}: ${until - Date.now()} ms`);
  }

  stored(turn: Turn, wanted: string, found: readonly string[]): void {
    if (!found.includes(wanted))
      this.#world.broken(
        'a stored value can be read',
        `${turn.task}: ${wanted} of ${String(found)}`,
      );
  }

  earlier(turn: Turn, task: string): void {
    if (task === turn.task) this.#world.broken('the history has other tasks', task);
  }
}
