import { randomUUID } from 'node:crypto';
import type { AgentContext, Turn } from '../event/types.ts';
import type { SessionOptions } from '../host/index.ts';
import { environmentOf } from '../host/launch/cli-launch.ts';
import { readLocalSession } from '../host/transcripts/local-session.ts';
import { TaskSessionStore } from './task-session-store.ts';

/** The CLI session of a run. */
export interface ChosenSession {
  readonly sessionId: string;
  readonly options: Pick<SessionOptions, 'resume' | 'forkSession' | 'sessionId' | 'sessionStore'>;
  /** Where the task log keeps the transcript; undefined if the user, or the CLI alone, keeps it. */
  readonly store?: TaskSessionStore;
}

/** Chooses the session: that of the task, a fork of the last one of the context, or a new one. */
export async function chooseCliSession(
  turn: Turn,
  ctx: AgentContext,
  options: SessionOptions,
): Promise<ChosenSession> {
  const store = storeOf(options, ctx);
  const own = ctx.task.sessionId;
  const stored = store && { store, options: { sessionStore: store } };
  // The first attempt at the first turn may have crashed before the CLI wrote its transcript.
  if (own !== undefined && ctx.task.attempt > 0 && began(ctx)) {
    const isThere = store && (await hasSession(store, own, options));
    return {
      sessionId: own,
      ...(isThere && stored),
      options: { resume: own, ...(isThere && stored?.options) },
    };
  }
  const sessionId = randomUUID();
  for await (const earlier of ctx.history()) {
    if (earlier.task === turn.task || earlier.sessionId === undefined) continue;
    const resume = earlier.sessionId;
    const isThere =
      store && ((await store.has(resume, earlier)) || (await hasSession(store, resume, options)));
    // A run that ended before its CLI wrote a transcript has nothing to continue from.
    if (store && !isThere && earlier.text === '') continue;
    const fork = { resume, forkSession: true, sessionId };
    return {
      sessionId,
      ...(isThere && stored),
      options: { ...fork, ...(isThere && stored?.options) },
    };
  }
  return { sessionId, ...stored, options: { sessionId, ...stored?.options } };
}

/**
 * The store of the task log, unless the user has chosen another place. A CLI that the app starts
 * itself may run on another machine, where the folder that a session is restored to does not exist.
 */
function storeOf(options: SessionOptions, ctx: AgentContext): TaskSessionStore | undefined {
  const { sessionStore, persistSession, transport, spawnClaudeCodeProcess } = options;
  if (sessionStore || persistSession === false || transport || spawnClaudeCodeProcess)
    return undefined;
  return ctx.storage && new TaskSessionStore(ctx.storage, () => ctx.history());
}

/** Whether the task has the session. One that an earlier version left on this disk is copied. */
async function hasSession(
  store: TaskSessionStore,
  sessionId: string,
  options: SessionOptions,
): Promise<boolean> {
  if (await store.has(sessionId)) return true;
  const parts = await readLocalSession(sessionId, environmentOf(options));
  for (const [key, entries] of parts ?? []) await store.append(key, entries);
  return parts !== undefined;
}

const began = ({ task }: AgentContext): boolean =>
  task.turns.length > 1 || task.text !== '' || task.calls.length > 0 || task.pending.length > 0;
