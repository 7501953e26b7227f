import { copyFile, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { isObject } from '../../json.ts';

const CREDENTIALS = '.credentials.json';
const STATE = '.claude.json';

/** The folder of the transcripts: the private folder has its own. */
const TRANSCRIPTS = 'projects';

/** The folder from which a CLI with this environment reads its login and the user's settings. */
export const usualConfigDir = (env: Readonly<Record<string, string | undefined>>): string =>
  env['CLAUDE_CONFIG_DIR'] || join(env['HOME'] || homedir(), '.claude');

/**
 * Gives a private configuration folder what the CLI has in its usual one. Settings, memory, agents,
 * skills, commands, plugins and the like are links. The state file and the login are copies, which
 * the CLI may rewrite; the copy of the login has no refresh token: using it would void the one of
 * the usual folder, and with it the login of every other CLI of the user.
 */
export async function linkConfig(
  folder: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const usual = usualConfigDir(env);
  // A folder that does not exist has no settings.
  const files = await readdir(usual, { withFileTypes: true }).catch(() => []);
  for (const file of files) {
    const { name } = file;
    if (name === TRANSCRIPTS || name === CREDENTIALS || name.startsWith(STATE)) continue;
    await link(join(usual, name), join(folder, name), file.isDirectory());
  }
  const state = env['CLAUDE_CONFIG_DIR'] ? usual : env['HOME'] || homedir();
  await copyJson(join(state, STATE), join(folder, STATE), (value) => value);
  await copyJson(join(usual, CREDENTIALS), join(folder, CREDENTIALS), withoutRefreshToken);
}

/** Links a file or folder; where links of files need a privilege (Windows), it is copied. */
async function link(from: string, to: string, isFolder: boolean): Promise<void> {
  try {
    await symlink(from, to, isFolder ? 'junction' : 'file');
  } catch (error) {
    if (isFolder || (error as NodeJS.ErrnoException).code !== 'EPERM') throw error;
    await copyFile(from, to);
  }
}

/** Copies a JSON file, only for its owner. A file that is missing or invalid is left out. */
async function copyJson(
  from: string,
  to: string,
  change: (value: unknown) => unknown,
): Promise<void> {
  try {
    const value: unknown = JSON.parse(await readFile(from, 'utf8'));
    await writeFile(to, JSON.stringify(change(value)), { mode: 0o600 });
  } catch {
    // Without the file the CLI starts as if it were new, and reports that it has no login.
  }
}

/** Removes `refreshToken` wherever it is. */
function withoutRefreshToken(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutRefreshToken);
  if (!isObject(value)) return value;
  const kept = Object.entries(value).filter(([name]) => name !== 'refreshToken');
  return Object.fromEntries(kept.map(([name, each]) => [name, withoutRefreshToken(each)]));
}
