import type { RuleId } from '../../../trace/index.ts';

/** One way of running it, as it went. */
export interface Side {
  /** What happened, in the order in which it did. */
  readonly lines: readonly string[];
  /** Whether it kept its promise. */
  readonly held: boolean;
  readonly verdict: string;
}

/** A mistake that many make: the naive way and ours, both really run. */
export interface Fault {
  readonly title: string;
  /** The rule that breaks. */
  readonly rule: string;
  /** Under which name `duolane doctor` finds it. */
  readonly doctor?: RuleId;
  /** What the naive program does, in the words of its author. */
  readonly naive: string;
  /** What Duolane does about it. */
  readonly ours: string;
  runNaive(signal: AbortSignal): Promise<Side>;
  runOurs(signal: AbortSignal): Promise<Side>;
}

/** Lines with the milliseconds since the beginning. */
export class FaultReport {
  readonly lines: string[] = [];
  readonly #from = performance.now();

  get ms(): number {
    return Math.round(performance.now() - this.#from);
  }

  tell(text: string): void {
    this.lines.push(`${String(this.ms).padStart(5)} ms  ${text}`);
  }

  end(held: boolean, verdict: string): Side {
    return { lines: this.lines, held, verdict };
  }
}
