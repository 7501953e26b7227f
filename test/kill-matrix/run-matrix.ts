import { readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Postgres } from '../support/task/postgres.ts';
import { differences, repeated } from './compare.ts';
import type { MatrixAgent } from './matrix-agent.ts';
import { type Fault, type FaultKind, play, type Played, type StoreKind, STORES } from './play.ts';

const folder = fileURLToPath(new URL('./agents/', import.meta.url));

/** The names of all agents of the matrix. */
export const agentNames = (): readonly string[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => basename(name, '.ts'));

export interface LoadedAgent {
  readonly name: string;
  readonly file: string;
  readonly agent: MatrixAgent;
}

export async function loadAgent(name: string): Promise<LoadedAgent> {
  const file = pathToFileURL(join(folder, `${name}.ts`)).href;
  const { default: agent } = (await import(file)) as { readonly default: MatrixAgent };
  return { name, file, agent };
}

/** The faults that an agent can have on a store. */
export const faultsOf = (store: StoreKind, { cli = false }: MatrixAgent): readonly FaultKind[] =>
  STORES[store].filter((fault) => fault !== 'cli' || cli);

export interface CellOptions {
  readonly loaded: LoadedAgent;
  readonly store: StoreKind;
  readonly database?: Postgres;
  /** An empty folder, which is deleted after each run that is correct. */
  readonly temporary: string;
}

/** The calls of the scene. */
const EFFECTS = 6;

/** The unbroken run; throws if it is not one. */
export async function unbroken(options: CellOptions): Promise<Played> {
  const whole = await playIn(options, 'unbroken');
  const wrong = [...differences(whole, whole, 0), ...whole.problems];
  if (repeated(whole.bodies).length > 0) wrong.push('it repeats a request');
  if (repeated(whole.effects).length > 0) wrong.push('it repeats an effect');
  const { effects = EFFECTS } = (await options.loaded.agent.sample?.()) ?? {};
  if (whole.effects.length !== effects) wrong.push(`it has the effects ${whole.effects.join()}`);
  if (wrong.length > 0)
    throw new Error(`the unbroken run is wrong: ${wrong.join('; ')}\n${whole.stderr}`);
  return whole;
}

export interface PointResult {
  readonly at: number | string;
  readonly wrong: readonly string[];
  /** Model calls and effects that were repeated. */
  readonly requests: number;
  readonly effects: number;
}

/** Plays the scene with a fault after one entry, and compares it with the unbroken run. */
export async function playPoint(
  options: CellOptions,
  whole: Played,
  fault: Fault,
): Promise<PointResult> {
  const { kind, at, inCall } = fault;
  // Not the id of the call: a CLI has its folder in each request, and the model reads the ids there.
  const name = `${kind}-${inCall?.replaceAll('_', '-') ?? at}`;
  const ended = await playIn(options, name, fault);
  const wrong = [...ended.problems, ...differences(ended, whole, at)];
  if (wrong.length > 0 && ended.stderr !== '') wrong.push(ended.stderr);
  if (wrong.length === 0) await rm(join(options.temporary, name), { recursive: true, force: true });
  return {
    at: inCall ?? at,
    wrong,
    requests: repeated(ended.bodies).length,
    effects: repeated(ended.effects).length,
  };
}

const playIn = (
  { loaded, store, database, temporary }: CellOptions,
  name: string,
  fault?: Fault,
): Promise<Played> =>
  play(
    {
      agentFile: loaded.file,
      agent: loaded.agent,
      store,
      folder: join(temporary, name),
      ...(database && { database }),
    },
    fault,
  );

/**
 * The faults of one kind: after every entry but the last one, or every `stride`-th. A process is
 * also killed after the effect of each call.
 */
export const pointsOf = (whole: Played, kind: FaultKind, stride = 1): readonly Fault[] => [
  ...whole.entries
    .slice(0, -1)
    .filter(({ seq }) => (seq - 1) % stride === 0)
    .map(({ seq }) => ({ kind, at: seq })),
  ...(kind === 'kill' ? whole.effects : [])
    .filter((_, index) => index % stride === 0)
    .map((inCall) => ({ kind, at: 0, inCall })),
];
