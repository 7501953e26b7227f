import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { projectKey, type SessionStoreEntry, transcriptBranch } from '../../wire/transcript.ts';
import { requireSession, type SessionMutationOptions } from './edit-session.ts';
import { infoOf } from './transcript-files.ts';

export interface ForkSessionOptions extends SessionMutationOptions {
  /** The last message of the copy; all messages by default. */
  readonly upToMessageId?: string;
  /** The title of the copy; that of the session with "(fork)" by default. */
  readonly title?: string;
}

export type ForkSessionResult = { sessionId: string };

/**
 * Copies a session, up to a message, to a new session that can be resumed. The messages get new
 * ids, and each names the message that it is a copy of. Sub-agents are not copied.
 */
export async function forkSession(
  sessionId: string,
  options: ForkSessionOptions = {},
): Promise<ForkSessionResult> {
  const found = await requireSession(sessionId, options);
  const entries = await found.load();
  const branch = branchOf(entries, sessionId, options.upToMessageId);
  const fork = randomUUID();
  const ids = new Map(branch.map(({ uuid }) => [uuid, randomUUID()]));
  const copied = branch.map((entry) => ({
    ...entry,
    sessionId: fork,
    uuid: ids.get(entry.uuid),
    parentUuid: ids.get(entry['parentUuid'] as string) ?? null,
    forkedFrom: { sessionId, messageUuid: entry.uuid },
  }));
  const summary = infoOf(sessionId, entries, found)?.summary ?? sessionId;
  const title: JsonObject = {
    type: 'custom-title',
    sessionId: fork,
    customTitle: options.title?.trim() || `${summary} (fork)`,
    uuid: randomUUID(),
    timestamp: new Date().toISOString(),
  };
  const lines = [...copied, title] as SessionStoreEntry[];
  if (found.file === undefined) {
    const key = { projectKey: projectKey(options.dir ?? process.cwd()), sessionId: fork };
    await options.sessionStore?.append(key, lines);
  } else {
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    const file = join(dirname(found.file), `${fork}.jsonl`);
    await writeFile(file, text, { mode: 0o600, flag: 'wx' });
  }
  return { sessionId: fork };
}

/** The messages to copy. Throws `not_found` for a message that the session does not have. */
function branchOf(
  entries: readonly SessionStoreEntry[],
  sessionId: string,
  upTo: string | undefined,
): readonly SessionStoreEntry[] {
  const branch = transcriptBranch(entries, upTo)?.filter(
    (entry) => entry.uuid !== undefined && entry['isSidechain'] !== true && 'message' in entry,
  );
  if (branch && branch.length > 0) return branch;
  throw new DuolaneError(
    'not_found',
    upTo === undefined
      ? `session "${sessionId}" has no messages; there is nothing to fork`
      : `message "${upTo}" not found in session "${sessionId}"; getSessionMessages lists its messages`,
  );
}
