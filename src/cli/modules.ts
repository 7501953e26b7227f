import { existsSync, readdirSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { DuolaneError } from '../errors.ts';
import type { AgentModule } from '../serve/types.ts';

/** The samples that come with the package, built beside it. */
const EXAMPLES = ['../examples/', '../../dist/examples/'].map((path) =>
  fileURLToPath(new URL(path, import.meta.url)),
);

export function exampleNames(): readonly string[] {
  const folder = EXAMPLES.find((path) => existsSync(path));
  if (!folder) return [];
  return readdirSync(folder).filter((name) => existsSync(resolve(folder, name, 'agent.js')));
}

/** An agent by the name of a sample or the path of a module; the module's default export is the agent. */
export async function loadAgent(
  given: string,
): Promise<{ readonly name: string; readonly module: AgentModule }> {
  const file = locate(given);
  let module: Partial<AgentModule>;
  try {
    module = (await import(pathToFileURL(file).href)) as Partial<AgentModule>;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new DuolaneError('invalid', `${given} cannot be loaded: ${why}`, { cause });
  }
  if (typeof module.default !== 'function') {
    throw new DuolaneError(
      'invalid',
      `${given} has no agent: export a default function (turn, ctx) that yields events`,
    );
  }
  const name = basename(given).replace(/\.[cm]?[jt]s$/, '');
  return { name, module: module as AgentModule };
}

function locate(given: string): string {
  const candidates = [
    ...(/^[\w-]+$/.test(given) ? EXAMPLES.map((folder) => resolve(folder, given, 'agent.js')) : []),
    resolve(given),
    resolve(given, 'agent.js'),
  ];
  const examples = /^(?:\.\/)?examples\/([\w-]+)\/?$/.exec(given)?.[1];
  if (examples) return locate(examples);
  const file = candidates.find((path) => /\.[cm]?[jt]s$/.test(path) && existsSync(path));
  if (file) return file;
  throw new DuolaneError(
    'not_found',
    `there is no module ${given}, and no sample of that name (samples: ${exampleNames().join(', ') || 'none built'})`,
  );
}
