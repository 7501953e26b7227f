import type { RuleId } from '../../../trace/index.ts';

/** The report of one run: the naive one or ours. */
export interface Side {
  /** The steps, in order. */
  readonly lines: readonly string[];
  /** Whether the rule was kept. */
  readonly kept: boolean;
  readonly verdict: string;
}

/** A common mistake. The demo runs the naive program and ours. */
export interface Fault {
  readonly title: string;
  /** The rule that the naive program breaks. */
  readonly rule: string;
  /** The rule of `duolane doctor` that finds it. */
  readonly doctor?: RuleId;
  /** What the naive program does. */
  readonly naive: string;
  /** What Duolane does instead. */
  readonly ours: string;
  runNaive(report: FaultReport, signal: AbortSignal): Promise<Side>;
  runOurs(report: FaultReport, signal: AbortSignal): Promise<Side>;
}

/** Collects lines with the milliseconds since the start. */
export class FaultReport {
  readonly lines: string[] = [];
  readonly #from = performance.now();

  get ms(): number {
    return Math.round(performance.now() - this.#from);
  }

  add(text: string): void {
    this.lines.push(`${String(this.ms).padStart(5)} ms  ${text}`);
  }

  end(kept: boolean, verdict: string): Side {
    return { lines: this.lines, kept, verdict };
  }
}
