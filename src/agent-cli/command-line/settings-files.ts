import { readFile, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { DuolaneError, errorMessage } from '../../errors.ts';
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
 * Reads the settings files of `--setting-sources`; a file that does not exist is left out. Throws
 * `invalid` for a file that cannot be read, since it may contain a deny rule.
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

const MAX_BYTES = 1024 * 1024;

/** The text of a regular file. A pipe, which a repository may contain, would never end. */
async function readRegular(path: string): Promise<string> {
  const found = await stat(path);
  if (!found.isFile()) throw new Error('expected a regular file');
  if (found.size > MAX_BYTES) throw new Error(`expected at most ${MAX_BYTES} bytes`);
  return readFile(path, 'utf8');
}

async function readOne(path: string): Promise<SettingsFile | undefined> {
  try {
    const settings: unknown = JSON.parse(await readRegular(path));
    if (!isObject(settings)) throw new Error('expected a JSON object');
    return { path, settings };
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new DuolaneError('invalid', `invalid settings file "${path}": ${errorMessage(cause)}`, {
      cause,
    });
  }
}
