import { randomUUID } from 'node:crypto';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import { configDirs, transcriptBranch } from '../../wire/transcript.ts';
import type { AgentFlags } from '../command-line/flags.ts';
import {
  type TranscriptEntry,
  findSession,
  newestSession,
  sessionDir,
  readEntries,
  type TranscriptLocation,
} from './transcript.ts';

/** What a session starts from. */
export interface Opened {
  readonly id: string;
  readonly file: string;
  /** What was said before; empty for a new session. */
  readonly entries: readonly TranscriptEntry[];
  /** The entries belong to another session and go into this one's file too. */
  readonly copy: boolean;
}

type Env = Readonly<Record<string, string | undefined>>;

export const placeOf = (env: Env, cwd: string): TranscriptLocation => ({
  configDir: configDirs(env, env['HOME'] || homedir())[0],
  cwd,
});

/** A new session, or the one that `--resume` or `--continue` means. Throws `not_found` for an unknown id. */
export async function openStored(flags: AgentFlags, place: TranscriptLocation): Promise<Opened> {
  const fileOf = (id: string): string => join(sessionDir(place), `${id}.jsonl`);
  const fresh = (): Opened => {
    const id = flags.sessionId ?? randomUUID();
    return { id, file: fileOf(id), entries: [], copy: false };
  };
  const wanted = flags.resume ?? (flags.continue ? await newestSession(place) : undefined);
  if (wanted === undefined) return fresh();
  const file = await findSession(place, wanted);
  if (file === undefined) {
    throw new DuolaneError('not_found', `No conversation found with session ID: ${wanted}`);
  }
  const entries = transcriptBranch(await readEntries(file), flags.resumeSessionAt);
  if (!entries) {
    throw new DuolaneError(
      'not_found',
      `No message ${flags.resumeSessionAt ?? ''} in the session ${wanted}`,
    );
  }
  if (flags.forkSession) return { ...fresh(), entries, copy: true };
  return { id: wanted, file, entries, copy: false };
}
