import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { DuolaneError } from '../../errors.ts';
import type { AgentModule } from '../../serve/types.ts';

export interface LoadedAgent {
  readonly name: string;
  readonly file: string;
  /** One of ours, not a file of the user. */
  readonly sample: boolean;
  readonly module: AgentModule;
}

/** The samples that come with the package, built beside it. */
const EXAMPLES = ['../../examples/', '../../../dist/examples/'].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
);

/** For the help, which must not depend on what is built. */
export const SAMPLES = 'Samples: ai-doctor, distill, text-to-sql, tickets.';

export function exampleNames(): readonly string[] {
  const folder = EXAMPLES.find((path) => existsSync(path));
  if (!folder) return [];
  return readdirSync(folder).filter((name) => existsSync(resolve(folder, name, 'agent.js')));
}

/** An agent by the name of a sample or the path of a module; the module's default export is the agent. */
export async function loadAgent(given: string): Promise<LoadedAgent> {
  const { file, sample } = locate(given);
  const module = await importAgent(file);
  const own = basename(file).replace(/\.[cm]?[jt]s$/, '');
  return { name: sample ?? own, file, sample: sample !== undefined, module };
}

/** Loads the module as it is now; `version` tells a changed file from the one that was loaded before. */
export async function importAgent(file: string, version?: number): Promise<AgentModule> {
  const module: Partial<AgentModule> = await importFile(file, version);
  if (typeof module.default !== 'function') {
    throw new DuolaneError(
      'invalid',
      `${file} has no agent: export a default function (turn, ctx) that yields events`,
    );
  }
  return module as AgentModule;
}

/** What a module exports; `invalid`, with the reason, if it cannot be loaded. */
export async function importFile(
  file: string,
  version?: number,
): Promise<Readonly<Record<string, unknown>>> {
  const url = pathToFileURL(resolve(file));
  if (version !== undefined) url.searchParams.set('version', String(version));
  try {
    return (await import(url.href)) as Readonly<Record<string, unknown>>;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new DuolaneError('invalid', `${file} cannot be loaded: ${why}`, { cause });
  }
}

function locate(given: string): { readonly file: string; readonly sample?: string } {
  const name = /^(?:(?:\.\/)?examples\/)?([\w-]+)\/?$/.exec(given)?.[1];
  const sample = EXAMPLES.map((folder) => resolve(folder, name ?? '', 'agent.js')).find(isFile);
  if (name !== undefined && sample !== undefined) return { file: sample, sample: name };
  const file = [resolve(given), resolve(given, 'agent.js')].find(isFile);
  if (file !== undefined) return { file };
  throw new DuolaneError(
    'not_found',
    `there is no module ${given}, and no sample of that name (samples: ${exampleNames().join(', ') || 'none built'})`,
  );
}

const isFile = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isFile() === true;
