import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';

type Env = Readonly<Record<string, string | undefined>>;

const SOURCES: Readonly<Record<string, (cwd: string, env: Env) => string>> = {
  user: (_, env) =>
    join(env['CLAUDE_CONFIG_DIR'] || join(env['HOME'] || homedir(), '.claude'), 'settings.json'),
  project: (cwd) => join(cwd, '.claude', 'settings.json'),
  local: (cwd) => join(cwd, '.claude', 'settings.local.json'),
};

export interface SettingsFile {
  readonly path: string;
  readonly settings: JsonObject;
}

/**
 * The settings files of `--setting-sources`, those that there are. Throws `invalid` for one that
 * cannot be read: it may hold a rule that denies something.
 */
export async function readSettingsFiles(
  sources: readonly string[],
  cwd: string,
  env: Env,
): Promise<readonly SettingsFile[]> {
  const files = await Promise.all(
    sources.map(async (source): Promise<SettingsFile | undefined> => {
      const path = SOURCES[source]?.(cwd, env);
      if (path === undefined)
        throw new DuolaneError(
          'invalid',
          `unknown setting source "${source}"; available: ${Object.keys(SOURCES).join(', ')}`,
        );
      return readOne(path);
    }),
  );
  return files.filter((file) => file !== undefined);
}

async function readOne(path: string): Promise<SettingsFile | undefined> {
  try {
    const settings: unknown = JSON.parse(await readFile(path, 'utf8'));
    if (!isObject(settings)) throw new Error('it is no JSON object');
    return { path, settings };
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new DuolaneError('invalid', `invalid settings file ${path}: ${why}`, { cause });
  }
}
