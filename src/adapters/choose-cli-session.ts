import { createHash, randomUUID } from 'node:crypto';
import type { AgentContext, Turn } from '../event/types.ts';
import type { SessionOptions } from '../host/index.ts';
import { environmentOf, isOwnCli } from '../host/launch/cli-launch.ts';
import { readLocalSession } from '../host/transcripts/local-session.ts';
import { type OpenTurn, TaskSessionStore } from './task-session-store.ts';
import type { TranscriptProgress } from './transcript-progress.ts';
import { parseMcpServers } from '../host/options/mcp-servers-option.ts';
import { parseToolName } from '../mcp/registry/tool-names.ts';

/** The CLI session of a run. */
export interface ChosenSession {
  readonly sessionId: string;
  readonly options: Pick<SessionOptions, 'resume' | 'forkSession' | 'sessionId' | 'sessionStore'>;
  /** Where the task log keeps the transcript; undefined if the user, or the CLI alone, keeps it. */
  readonly store?: TaskSessionStore;
  /** How far an earlier run of the turn has come; undefined if the CLI has not got its message. */
  readonly progress?: TranscriptProgress;
}

/** Chooses the session: that of the task, a fork of the last one of the context, or a new one. */
export async function chooseCliSession(
  turn: Turn,
  ctx: AgentContext,
  options: SessionOptions,
): Promise<ChosenSession> {
  const store = keepsInLog(options) && ctx.storage ? storeOf(ctx.storage, ctx) : undefined;
  const own = ctx.task.sessionId;
  const stored = { ...(store && { store }) };
  const sessionStore = store && { sessionStore: store };
  if (own !== undefined && ctx.task.attempt > 0) {
    const resume = { resume: own };
    // What the disk has of a first turn without calls may end with the interrupt of a stop.
    const isOnDisk = !isFirst(turn, ctx) || ctx.task.calls.length > 0;
    const isThere =
      store && (isOnDisk ? await hasSession(store, own, options) : await store.has(own));
    if (store && isThere) {
      // Ours continues after a prompt. The vendor's would add a text to it.
      const progress = await store.openTurn(own, promptId(turn), {
        again: !isOwnCli(options),
        needsOutput: options.outputFormat !== undefined,
        mayRepeat: repeatable(ctx, options),
      });
      const opened = { sessionId: own, store, options: { ...resume, ...sessionStore } };
      if (progress) return { ...opened, progress };
      if (await store.has(own)) return opened;
    }
    // The first attempt at the first turn may have crashed before the CLI wrote its transcript.
    if (store ? !isFirst(turn, ctx) : began(ctx)) return { sessionId: own, options: resume };
  }
  const sessionId = randomUUID();
  for await (const earlier of ctx.history()) {
    if (earlier.task === turn.task || earlier.sessionId === undefined) continue;
    const fork = { resume: earlier.sessionId, forkSession: true, sessionId };
    const isThere =
      store &&
      ((await store.has(fork.resume, earlier)) || (await hasSession(store, fork.resume, options)));
    if (isThere) return { sessionId, ...stored, options: { ...fork, ...sessionStore } };
    // A run that ended before its CLI wrote a transcript has nothing to continue from.
    if (!store || earlier.text !== '') return { sessionId, options: fork };
  }
  return { sessionId, ...stored, options: { sessionId, ...sessionStore } };
}

/**
 * Which calls a model message may have that is written again, as long as none of them was made. The
 * vendor's CLI cannot make an open call after a restart, and may have written its message before it
 * was complete. Calls of its own tools may have had effects that the log does not have, and a
 * person may have decided about a call.
 */
function repeatable({ task }: AgentContext, options: SessionOptions): OpenTurn['mayRepeat'] {
  if (isOwnCli(options)) return () => false;
  const own = new Set(parseMcpServers(options).sdk.map(({ name }) => name));
  const asked = new Set([...task.pending, ...(task.answered ?? [])].map(({ callId }) => callId));
  return ({ callId, name }) => !asked.has(callId) && own.has(parseToolName(name)?.server ?? '');
}

const storeOf = (
  storage: NonNullable<AgentContext['storage']>,
  ctx: AgentContext,
): TaskSessionStore => new TaskSessionStore(storage, () => ctx.history());

/**
 * Whether the task log keeps the transcript, which it does unless the user has chosen another
 * place. A CLI that the app starts itself may run on another machine, where the folder that a
 * session is restored to does not exist.
 */
export const keepsInLog = (options: SessionOptions): boolean =>
  !options.sessionStore &&
  options.persistSession !== false &&
  !options.transport &&
  !options.spawnClaudeCodeProcess;

/**
 * The id of the message that the CLI gets for a turn. It depends on the turn alone, so that a later
 * run finds out whether the CLI has got the message.
 */
export function promptId({ task, messageId }: Turn): string {
  const hash = createHash('sha256').update(`${task}\n${messageId}`).digest('hex');
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(13, 16)}-8${hash.slice(17, 20)}-${hash.slice(20, 32)}`;
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

const isFirst = ({ messageId }: Turn, { task }: AgentContext): boolean =>
  task.turns[0]?.messageId === messageId;

const began = ({ task }: AgentContext): boolean =>
  task.turns.length > 1 || task.text !== '' || task.calls.length > 0 || task.pending.length > 0;
