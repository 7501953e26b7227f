import { fileURLToPath } from 'node:url';
import { buildEnv, type ProcessOptions } from '../../src/process/index.ts';

/** The path of the stub CLI; the comment at its top documents the script. */
export const STUB_CLI: string = fileURLToPath(new URL('../fixtures/stub-cli.mjs', import.meta.url));

/** One step of a script; the stub documents them. */
export type StubStep = Readonly<Record<string, unknown>>;

export interface StubScript {
  readonly start?: readonly StubStep[];
  readonly initialize?: readonly StubStep[];
  readonly turns?: readonly (readonly StubStep[])[];
  readonly eof?: readonly StubStep[];
  readonly answers?: Readonly<Record<string, unknown>>;
  readonly ignore?: readonly ('EOF' | 'SIGTERM' | 'SIGINT')[];
  readonly state?: boolean;
  readonly newline?: string;
  readonly chunk?: number;
}

/** The environment with a script for the stub, or the name of a preset. */
export function stubEnv(script: StubScript | string = {}): Record<string, string> {
  const set =
    typeof script === 'string' ? { STUB_MODE: script } : { STUB_SCRIPT: JSON.stringify(script) };
  return buildEnv({ set });
}

/** For `spawnProcess`. */
export const stub = (script: StubScript | string = {}): ProcessOptions => ({
  command: STUB_CLI,
  args: [],
  env: stubEnv(script),
});

/** A prompt that is its own script. */
export const prompt = (...steps: readonly StubStep[]): string => JSON.stringify(steps);
