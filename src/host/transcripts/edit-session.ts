import { randomUUID } from 'node:crypto';
import { appendFile, rm } from 'node:fs/promises';
import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { isSessionId, projectKey, type SessionStoreEntry } from '../../wire/transcript.ts';
import { writeArchived } from './archive-mark.ts';
import { findSessions, type FoundSession, type SessionQuery } from './list-sessions.ts';
import type { SessionStore } from './session-store.ts';

/** Where a session is: in a project's folder, in any folder, or in a store. */
export type SessionMutationOptions = Pick<SessionQuery, 'dir' | 'sessionStore'>;

/** A session that exists. Throws `not_found` otherwise, and `invalid` for what cannot be an id. */
export async function requireSession(
  sessionId: string,
  options: SessionMutationOptions,
): Promise<FoundSession> {
  if (typeof sessionId !== 'string' || sessionId === '' || !isSessionId(sessionId))
    throw new DuolaneError(
      'invalid',
      `invalid session id ${JSON.stringify(sessionId)}: expected an id without a path separator`,
    );
  const found = (await findSessions(options)).find((each) => each.sessionId === sessionId);
  if (found) return found;
  throw new DuolaneError(
    'not_found',
    `session "${sessionId}" not found; it may belong to another folder than ${options.dir ?? 'those of this user'}`,
  );
}

/** Gives a session a title, which `listSessions` shows as its summary. */
export async function renameSession(
  sessionId: string,
  title: string,
  options: SessionMutationOptions = {},
): Promise<void> {
  const customTitle = nonEmpty('title', title);
  await append(sessionId, options, { type: 'custom-title', customTitle, sessionId });
}

/** Gives a session a tag in place of an earlier one; null removes it. */
export async function tagSession(
  sessionId: string,
  tag: string | null,
  options: SessionMutationOptions = {},
): Promise<void> {
  const kept = tag === null ? '' : nonEmpty('tag', tag, '; pass null to remove the tag');
  await append(sessionId, options, { type: 'tag', tag: kept, sessionId });
}

/** Marks a session as archived. It stays where it is and can be resumed. */
export async function archiveSession(
  sessionId: string,
  options: SessionMutationOptions = {},
): Promise<void> {
  await writeArchived(await fileOf(sessionId, options, 'archive'), true);
}

export async function unarchiveSession(
  sessionId: string,
  options: SessionMutationOptions = {},
): Promise<void> {
  await writeArchived(await fileOf(sessionId, options, 'unarchive'), false);
}

/** Deletes a session with the transcripts of its sub-agents. Do not delete one that still runs. */
export async function deleteSession(
  sessionId: string,
  options: SessionMutationOptions = {},
): Promise<void> {
  const { sessionStore } = options;
  const { file } = await requireSession(sessionId, options);
  if (file !== undefined) {
    await rm(file, { force: true });
    await rm(file.slice(0, -'.jsonl'.length), { recursive: true, force: true });
  } else if (sessionStore) await deleteIn(sessionStore, sessionId, options);
}

async function deleteIn(
  store: SessionStore,
  sessionId: string,
  { dir }: SessionMutationOptions,
): Promise<void> {
  const remove = store.delete?.bind(store);
  if (!remove)
    throw new DuolaneError(
      'unsupported',
      'cannot delete: the session store has no delete(); add it',
    );
  const key = { projectKey: projectKey(dir ?? process.cwd()), sessionId };
  for (const subpath of (await store.listSubkeys?.(key)) ?? []) await remove({ ...key, subpath });
  await remove(key);
}

async function fileOf(
  sessionId: string,
  options: SessionMutationOptions,
  verb: string,
): Promise<string> {
  const { file } = await requireSession(sessionId, options);
  if (file !== undefined) return file;
  throw new DuolaneError(
    'unsupported',
    `cannot ${verb} a session of a store: the mark is a file beside the transcript; use tagSession`,
  );
}

async function append(
  sessionId: string,
  options: SessionMutationOptions,
  entry: JsonObject,
): Promise<void> {
  const { file } = await requireSession(sessionId, options);
  if (file !== undefined) {
    await appendFile(file, `${JSON.stringify(entry)}\n`);
    return;
  }
  const stored: SessionStoreEntry = {
    ...entry,
    uuid: randomUUID(),
    timestamp: new Date().toISOString(),
  };
  const key = { projectKey: projectKey(options.dir ?? process.cwd()), sessionId };
  await options.sessionStore?.append(key, [stored]);
}

function nonEmpty(name: string, value: unknown, more = ''): string {
  const text = typeof value === 'string' ? value.trim() : '';
  if (text !== '') return text;
  throw new DuolaneError('invalid', `invalid ${name}: expected a text that is not empty${more}`);
}
