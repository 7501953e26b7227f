import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { DuolaneError, errorMessage } from '../../errors.ts';
import type { AgentModule } from '../../serve/types.ts';

/** An agent module that was loaded. */
export interface LoadedAgent {
  readonly name: string;
  readonly file: string;
  /** Whether it is a sample of the package, not a file of the user. */
  readonly sample: boolean;
  readonly module: AgentModule;
}

/** Folders that may hold the built samples: the first when installed, the second in a checkout. */
const EXAMPLES = ['../../examples/', '../../../dist/examples/'].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
);

/** The samples for the help, which must not depend on the build. */
export const SAMPLES = 'Samples: ai-doctor, distill, text-to-sql, tickets.';

/** The names of the samples that are built. */
export function exampleNames(): readonly string[] {
  const folder = EXAMPLES.find((path) => existsSync(path));
  if (!folder) return [];
  return readdirSync(folder).filter((name) => existsSync(resolve(folder, name, 'agent.js')));
}

/**
 * Loads an agent: a sample by its name, or a module by its path, whose default export is the agent.
 */
export async function loadAgent(given: string): Promise<LoadedAgent> {
  const { file, sample } = locate(given);
  const module = await importAgent(file);
  const own = basename(file).replace(/\.[cm]?[jt]s$/, '');
  return { name: sample ?? own, file, sample: sample !== undefined, module };
}

/** Loads an agent module. A new `version` loads a file again that has changed. */
export async function importAgent(file: string, version?: number): Promise<AgentModule> {
  const module: Partial<AgentModule> = await importFile(file, version);
  if (typeof module.default !== 'function') {
    throw new DuolaneError(
      'invalid',
      `${file} has no agent: expected a default export (turn, ctx) that yields events`,
    );
  }
  return module as AgentModule;
}

/** Closes the resources of a module, the last one first. */
export async function closeResources({ options }: AgentModule): Promise<void> {
  for (const resource of options?.resources?.toReversed() ?? [])
    await resource[Symbol.asyncDispose]();
}

/** Imports a module. Throws `invalid` with the reason if it cannot be loaded. */
export async function importFile(
  file: string,
  version?: number,
): Promise<Readonly<Record<string, unknown>>> {
  const url = pathToFileURL(resolve(file));
  if (version !== undefined) url.searchParams.set('version', String(version));
  try {
    return (await import(url.href)) as Readonly<Record<string, unknown>>;
  } catch (cause) {
    throw new DuolaneError('invalid', `cannot load ${file}: ${errorMessage(cause)}`, { cause });
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
    `module or sample "${given}" not found; samples: ${exampleNames().join(', ') || 'none is built'}`,
  );
}

const isFile = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isFile() === true;
