import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /**
   * The start time in clock ticks. Together with the pid it identifies a process: a reused pid has
   * another.
   */
  readonly start: string;
}

/**
 * A child, its process group and, on systems with /proc, its descendants that have left the group.
 * A descendant is known from the first `signal` on that found it below the child. A daemon whose
 * parent was gone by then is found by `mark`, a `NAME=value` of its environment, on Linux and as
 * long as it has not cleared its environment; without a mark it is not found.
 */
export class ProcessTree {
  readonly #leader: number;
  readonly #mark: string | undefined;
  #known: readonly Process[] = [];

  /** `leader` must have been started as the leader of its own group. */
  constructor(leader: number, mark?: string) {
    this.#leader = leader;
    this.#mark = mark;
  }

  /**
   * Sends the signal to all living processes of the tree. A process that is gone already is not an
   * error.
   */
  signal(name: 'SIGTERM' | 'SIGKILL'): void {
    if (process.platform === 'win32') {
      killTreeOnWindows(this.#leader);
      return;
    }
    this.#scan();
    send(-this.#leader, name);
    for (const { pid, group } of this.#known) if (group !== this.#leader) send(pid, name);
  }

  /**
   * Returns the pids that are still alive; a zombie that its parent has not reaped yet does not
   * count.
   */
  survivors(): readonly number[] {
    if (process.platform === 'win32') return [];
    const alone = this.#known.length === 0 && this.#mark === undefined;
    if (alone && !send(-this.#leader, 0)) return [];
    if (!this.#scan()) return send(-this.#leader, 0) ? [this.#leader] : [];
    return this.#known.map(({ pid }) => pid);
  }

  #scan(): boolean {
    const all = processes();
    if (!all) return false;
    const children = new Map<number, Process[]>();
    for (const one of all.values()) {
      const siblings = children.get(one.parent);
      if (siblings) siblings.push(one);
      else children.set(one.parent, [one]);
    }
    const found = new Set<Process>();
    for (const one of all.values()) if (one.group === this.#leader) found.add(one);
    if (this.#mark !== undefined)
      for (const one of all.values()) if (hasMark(one.pid, this.#mark)) found.add(one);
    for (const { pid, start } of this.#known) {
      const now = all.get(pid);
      if (now?.start === start) found.add(now);
    }
    for (const one of found) for (const child of children.get(one.pid) ?? []) found.add(child);
    this.#known = [...found];
    return true;
  }
}

/** Sends a signal and returns whether the process exists; 0 only checks that. */
export function send(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    // The process is gone.
    return false;
  }
}

/** All living processes that /proc shows; `undefined` without /proc. */
function processes(): Map<number, Process> | undefined {
  if (process.platform !== 'linux') return undefined;
  let names: readonly string[];
  try {
    names = readdirSync('/proc');
  } catch {
    // This system has no /proc; the caller uses signal 0 instead.
    return undefined;
  }
  const all = new Map<number, Process>();
  for (const name of names) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    const one = inspect(pid);
    if (one) all.set(pid, one);
  }
  return all;
}

/**
 * Whether a process was started with this `NAME=value`. False for a process of another user, whose
 * environment cannot be read.
 */
function hasMark(pid: number, mark: string): boolean {
  try {
    return `\0${readFileSync(`/proc/${pid}/environ`, 'latin1')}`.includes(`\0${mark}\0`);
  } catch {
    // It has exited, or belongs to another user.
    return false;
  }
}

function inspect(pid: number): Process | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  } catch {
    return undefined; // It exited after the listing.
  }
  // The name in parentheses may contain anything, even a parenthesis: the fields follow the last
  // one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state = '', parent, group] = fields;
  if (state === 'Z' || state === 'X') return undefined;
  return { pid, parent: Number(parent), group: Number(group), start: fields[19] ?? '' };
}

// We have no tests for this: Windows has no process groups, and taskkill walks the tree.
function killTreeOnWindows(leader: number): void {
  const args = ['/pid', String(leader), '/T', '/F'];
  spawn('taskkill', args, { stdio: 'ignore', windowsHide: true }).on('error', () => {});
}
