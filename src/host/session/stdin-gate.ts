import { isObject, type JsonObject } from '../../json.ts';
import type { ControlRequest } from '../../wire/control-peer.ts';
import { controlLabel, describeControl } from '../../wire/describe-control.ts';
import type { TurnTracker } from './turn-tracker.ts';

const ENDED = new Set(['completed', 'failed', 'killed', 'stopped', 'cancelled']);

/**
 * Only sub-agents and workflows hold stdin open: they may still call tools of this process, and they
 * end. A background shell (a dev server, `tail -f`) may never report that it ended, while the CLI
 * exits only at the end of its input: holding stdin for it would keep a finished query alive. The
 * official SDKs draw the same line.
 */
const HOLDS_STDIN = new Set(['local_agent', 'local_workflow']);

const holdsStdin = (task: JsonObject): boolean => HOLDS_STDIN.has(String(task['task_type']));

/**
 * When stdin may close, as a pure machine: facts in, one answer out. It closes when the input has
 * ended and the run is idle: no request pending either way, no turn without a result, no sub-agent
 * or workflow in the background, no turn about to start, the session not running. Never on a timer, and never because the
 * prompt was a string.
 */
export class StdinGate {
  readonly #turns: TurnTracker;
  readonly #pending = new Map<string, ControlRequest | string>();
  readonly #tasks = new Map<string, string>();
  #state: string | undefined;
  #queued = 0;
  #notice: string | undefined;
  #inputEnded = false;

  constructor(turns: TurnTracker) {
    this.#turns = turns;
  }

  get inputEnded(): boolean {
    return this.#inputEnded;
  }

  endInput(): void {
    this.#inputEnded = true;
  }

  /** Something waits: a request of ours by its subtype, or one of the peer that we serve. */
  hold(id: string, what: ControlRequest | string): void {
    this.#pending.set(id, what);
  }

  release(id: string): void {
    this.#pending.delete(id);
  }

  /** Every message of the peer; cheap for those that say nothing about its state. */
  observe(message: JsonObject): void {
    const type = message['type'];
    if (type === 'system') this.#system(message);
    else if (type === 'result') {
      this.#notice = undefined;
      const queued = message['queued_turn_count'];
      this.#queued = typeof queued === 'number' ? queued : 0;
    }
  }

  get mayClose(): boolean {
    return this.#inputEnded && !this.busy;
  }

  /** Whether anything at all goes on; a session that is open and waits for input is not busy. */
  get busy(): boolean {
    return (
      this.#pending.size > 0 ||
      this.#turns.open > 0 ||
      this.#tasks.size > 0 ||
      this.#queued > 0 ||
      this.#notice !== undefined ||
      this.#running
    );
  }

  /** What keeps stdin open, in words; empty while input may still come. */
  get holding(): readonly string[] {
    const words = [...this.#pending.values()].map(describe);
    if (this.#turns.open === 1) words.push('a message without its result');
    else if (this.#turns.open > 1) words.push(`${this.#turns.open} messages without their result`);
    for (const [id, what] of this.#tasks) words.push(`background task ${id}${what}`);
    if (this.#queued > 0) words.push(`${this.#queued} queued turns`);
    if (this.#notice !== undefined) words.push(`a turn about task ${this.#notice}`);
    if (this.#running) words.push(`session state ${this.#state}`);
    return words;
  }

  get #running(): boolean {
    return this.#state !== undefined && this.#state !== 'idle';
  }

  #system(message: JsonObject): void {
    const task = message['task_id'];
    switch (message['subtype']) {
      case 'session_state_changed':
        this.#state = String(message['state']);
        if (this.#running) this.#notice = undefined;
        else this.#queued = 0;
        return;
      case 'init':
        this.#notice = undefined;
        return;
      case 'background_tasks_changed':
        this.#snapshot(message['tasks']);
        return;
      case 'task_started':
        if (typeof task === 'string' && holdsStdin(message)) this.#tasks.set(task, named(message));
        return;
      case 'task_updated': {
        const patch = message['patch'];
        if (isObject(patch) && ENDED.has(String(patch['status']))) this.#tasks.delete(String(task));
        return;
      }
      case 'task_notification':
        this.#tasks.delete(String(task));
        // The model will be told in a turn of its own, which has not begun yet.
        if (this.#state === 'idle' && /^(completed|failed)$/.test(String(message['status'])))
          this.#notice = String(task);
    }
  }

  #snapshot(tasks: unknown): void {
    if (!Array.isArray(tasks)) return;
    this.#tasks.clear();
    for (const task of tasks) {
      if (isObject(task) && typeof task['task_id'] === 'string' && holdsStdin(task))
        this.#tasks.set(task['task_id'], named(task));
    }
  }
}

const named = (task: JsonObject): string =>
  typeof task['description'] === 'string' ? ` (${task['description']})` : '';

/** A pending request in the words of `holding`. */
export function describe(what: ControlRequest | string): string {
  if (typeof what === 'string') return what;
  return controlLabel(describeControl(what));
}
