import { readdir, readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import {
  configDirs,
  isSessionId,
  keyOfPath,
  parseTranscript,
  projectDir,
} from '../../wire/transcript.ts';
import type { SessionPart } from './restore-session.ts';

/**
 * Reads a session, with the parts of its subagents, from the configuration folders of a CLI with
 * this environment, whatever its project. Undefined if none of them has it.
 */
export async function readLocalSession(
  sessionId: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<readonly SessionPart[] | undefined> {
  if (!isSessionId(sessionId)) return undefined;
  for (const root of configDirs(env, env['HOME'] || homedir()))
    for (const project of await namesIn(join(root, 'projects'))) {
      const folder = projectDir(root, project);
      const main = await readPart(join(folder, `${sessionId}.jsonl`));
      if (!main) continue;
      const names = (await namesIn(join(folder, sessionId), { recursive: true })).filter((name) =>
        name.endsWith('.jsonl'),
      );
      const parts = await Promise.all(names.map((name) => readPart(join(folder, sessionId, name))));
      return [main, ...parts.filter((part) => part !== undefined)];
    }
  return undefined;
}

async function namesIn(
  folder: string,
  options: { readonly recursive?: boolean } = {},
): Promise<string[]> {
  // A folder that does not exist has no sessions.
  return readdir(folder, options).catch(() => []);
}

/** The entries of a file; undefined if it does not exist. */
async function readPart(path: string): Promise<SessionPart | undefined> {
  const key = keyOfPath(path);
  // A project without this file does not have the session.
  const text = await readFile(path, 'utf8').catch(() => undefined);
  return key && text !== undefined ? [key, parseTranscript(text)] : undefined;
}
