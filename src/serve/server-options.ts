import { DuolaneError } from '../errors.ts';
import type { BlobStore } from '../task/blob-store.ts';
import type { AgentModule, ServeOptions } from './types.ts';

type Modules = Readonly<Record<string, AgentModule>>;

/** What a server has once, however many agents it has. */
const ONCE = [
  'host',
  'port',
  'log',
  'auth',
  'operators',
  'audit',
  'session',
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
 * The options of a server: what it was told, and for the rest what its modules say. Throws `invalid`
 * when two of them say something else: one would be overruled in silence, and it may be its `auth`.
 */
export function serverOptions(modules: Modules, options: ServeOptions): ServeOptions {
  const open = ONCE.filter((option) => options[option] === undefined);
  const said = open.flatMap((option) => {
    const by = Object.entries(modules).filter(([, { options }]) => options?.[option] !== undefined);
    const values = new Set(by.map(([, { options }]) => options?.[option]));
    if (values.size > 1)
      throw new DuolaneError(
        'invalid',
        `${by.map(([name]) => name).join(' and ')} say different things about ${option}; say it once, for the whole server`,
      );
    return [...values].map((value) => [option, value] as const);
  });
  return { ...options, ...Object.fromEntries(said) };
}

/** The bytes of all modules. */
export const blobsOf = (modules: Modules): readonly BlobStore[] =>
  Object.values(modules).flatMap(({ options }) => options?.blobs ?? []);

/** Deletes what any of them has of a task; for the log, which knows when it goes. */
export const removerOf = (stores: readonly BlobStore[]): Pick<BlobStore, 'removeTask'> => ({
  async removeTask(task) {
    for (const store of stores) await store.removeTask(task);
  },
});
