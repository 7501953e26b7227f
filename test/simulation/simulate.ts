import { enter, replaceGlobals } from './globals.ts';
import { type AnyPlan, planOf, runPlan } from './parts.ts';
import { realNow } from './real.ts';
import { type Violation, World } from './world.ts';

/** What one schedule did. */
export interface Outcome {
  readonly seed: number;
  readonly hash: string;
  readonly events: number;
  readonly virtualMs: number;
  readonly counts: ReadonlyMap<string, number>;
  readonly violations: readonly Violation[];
  readonly lines: readonly string[];
}

let running: World | undefined;
let isReady = false;

function prepare(): void {
  if (isReady) return;
  isReady = true;
  replaceGlobals();
  process.on('unhandledRejection', (reason: unknown) => {
    const text = reason instanceof Error ? (reason.stack ?? reason.message) : String(reason);
    if (running) running.broken('no rejection is unhandled', text);
    else throw new Error(`unhandled after a run: ${text}`);
  });
  // A logger that throws is replaced by warnings of the process.
  process.emitWarning = () => {};
}

/** Runs one schedule to its end. */
export async function simulate(
  plan: AnyPlan,
  { trace = false }: { readonly trace?: boolean } = {},
): Promise<Outcome> {
  prepare();
  const world = new World(plan.seed, { trace });
  running = world;
  enter(world);
  try {
    await runPlan(world, plan);
  } catch (error) {
    world.broken('the simulation itself works', String((error as Error).stack));
  }
  const { seed, traceHash: hash, events, now, counts, violations, lines = [] } = world;
  return { seed, hash, events, virtualMs: now, counts, violations, lines };
}

export { planOf, realNow };
