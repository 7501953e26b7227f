import { isObject, type JsonObject } from '../../json.ts';
import type { ControlLink } from '../../wire/control-link.ts';
import type { ControlRequest } from '../../wire/control-peer.ts';
import { controlLabel, describeControl } from '../../wire/describe-control.ts';
import type { TurnTracker } from './turn-tracker.ts';

const ENDED = new Set(['completed', 'failed', 'killed', 'stopped', 'cancelled']);

/**
 * Only sub-agents and workflows hold stdin open: they may still call tools of this process, and
 * they end. A background shell (a dev server, `tail -f`) may never report its end, while the CLI
 * exits only at the end of its input: holding stdin for it would keep a finished query open
 * forever. The official SDKs have the same rule.
 */
const HOLDS_STDIN = new Set(['local_agent', 'local_workflow']);

const holdsStdin = (task: JsonObject): boolean => HOLDS_STDIN.has(String(task['task_type']));

/**
 * Decides when stdin may close, as a pure state machine. Stdin closes when the input has ended and
 * the run is idle: no request is pending in either direction, every turn has its result, no
 * sub-agent or workflow runs in the background, no turn is about to start, and the session state is
 * not running. It never closes on a timer, and never because the prompt was a string: a tool call
 * that comes later could not be answered.
 */
export class StdinGate {
  /** How many messages `send` accepted that wait for the response to `initialize`. */
  unsent = 0;
  readonly #turns: TurnTracker;
  readonly #requests: Pick<ControlLink, 'pending' | 'pendingCount'>;
  readonly #tasks = new Map<string, string>();
  #state: string | undefined;
  #queued = 0;
  #notice: string | undefined;
  #inputEnded = false;

  constructor(turns: TurnTracker, requests: Pick<ControlLink, 'pending' | 'pendingCount'>) {
    this.#turns = turns;
    this.#requests = requests;
  }

  get inputEnded(): boolean {
    return this.#inputEnded;
  }

  endInput(): void {
    this.#inputEnded = true;
  }

  /**
   * Reads a message of the CLI. It is called for every message, so most types cost one comparison.
   */
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

  /** Whether work is open. A session that is idle and waits for input is not busy. */
  get busy(): boolean {
    return (
      this.unsent > 0 ||
      this.#requests.pendingCount > 0 ||
      this.#turns.open > 0 ||
      this.#tasks.size > 0 ||
      this.#queued > 0 ||
      this.#notice !== undefined ||
      this.#running
    );
  }

  /** The work that keeps stdin open, one text each: `tools/call create_ticket on cci`. */
  get holding(): readonly string[] {
    const texts = [...this.#requests.pending()].map(describe);
    for (let n = 0; n < this.unsent; n++) texts.push('a message that waits for initialize');
    if (this.#turns.open === 1) texts.push('a message without its result');
    else if (this.#turns.open > 1) texts.push(`${this.#turns.open} messages without their result`);
    for (const [id, what] of this.#tasks) texts.push(`background task ${id}${what}`);
    if (this.#queued > 0) texts.push(`${this.#queued} queued turns`);
    if (this.#notice !== undefined) texts.push(`a turn about task ${this.#notice}`);
    if (this.#running) texts.push(`session state ${this.#state}`);
    return texts;
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
        // The CLI reports the task to the model in a turn of its own, which has not begun yet.
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
