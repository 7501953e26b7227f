import { DuolaneError } from '../errors.ts';
import type { BlobStore } from '../task/blob-store.ts';
import type { AgentModule, ServeOptions } from './types.ts';

type Modules = Readonly<Record<string, AgentModule>>;

/** The options that a server has once, however many agents it has. */
const ONCE = [
  'host',
  'port',
  'log',
  'auth',
  'operators',
  'audit',
  'session',
  'events',
  'publicUrl',
  'origins',
  'page',
  'limits',
  'retention',
  'graceMs',
  'timeoutMs',
  'maxRuns',
  'queue',
  'grpc',
  'telemetry',
  'logger',
] as const satisfies readonly (keyof ServeOptions)[];

/**
 * Merges the options of serve() with those of the modules; serve() takes precedence. Throws
 * `invalid` if two modules set an option to different values: one of them would be ignored without
 * a notice, and it may be the one with `auth`.
 */
export function serverOptions(modules: Modules, options: ServeOptions): ServeOptions {
  const open = ONCE.filter((option) => options[option] === undefined);
  const fromModules = open.flatMap((option) => {
    const by = Object.entries(modules).filter(([, { options }]) => options?.[option] !== undefined);
    const values = new Set(by.map(([, { options }]) => options?.[option]));
    if (values.size > 1)
      throw new DuolaneError(
        'invalid',
        `conflicting option "${option}" in modules ${by.map(([name]) => `"${name}"`).join(' and ')}; set it once in the options of serve()`,
      );
    return [...values].map((value) => [option, value] as const);
  });
  return { ...options, ...Object.fromEntries(fromModules) };
}

/** The blob stores of the server and of all modules, each once. */
export const blobsOf = (modules: Modules, blobs?: BlobStore): readonly BlobStore[] => {
  const own = Object.values(modules).flatMap(({ options }) => options?.blobs ?? []);
  return [...new Set(blobs ? [blobs, ...own] : own)];
};

/** Deletes the blobs of a task from all stores. The log calls it when it prunes the task. */
export const removerOf = (stores: readonly BlobStore[]): Pick<BlobStore, 'removeTask'> => ({
  async removeTask(task) {
    for (const store of stores) await store.removeTask(task);
  },
});
