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

/** The transcript that a session starts with. */
export interface Opened {
  readonly id: string;
  readonly file: string;
  /** The entries of the resumed session; empty for a new one. */
  readonly entries: readonly TranscriptEntry[];
  /** The entries belong to another session and must be copied to the file of this one. */
  readonly copy: boolean;
}

/** The error text of the vendor's CLI for an unknown session; hosts may compare it. */
const sessionNotFound = (id: string): string => `No conversation found with session ID: ${id}`;

type Env = Readonly<Record<string, string | undefined>>;

export const placeOf = (env: Env, cwd: string): TranscriptLocation => ({
  configDir: configDirs(env, env['HOME'] || homedir())[0],
  cwd,
});

/**
 * Opens a new session, or the one of `--resume` or `--continue`. Throws `not_found` for an unknown
 * session or message.
 */
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
    throw new DuolaneError('not_found', sessionNotFound(wanted));
  }
  const entries = transcriptBranch(await readEntries(file), flags.resumeSessionAt);
  if (!entries) {
    throw new DuolaneError(
      'not_found',
      `message "${flags.resumeSessionAt ?? ''}" not found in session "${wanted}"; check --resume-session-at`,
    );
  }
  if (flags.forkSession) return { ...fresh(), entries, copy: true };
  return { id: wanted, file, entries, copy: false };
}
