import { DuolaneError, invalid } from '../../errors.ts';
import type { AgentContext, Turn } from '../../event/types.ts';
import { asNumber, asObject, asObjects, asString, type JsonObject } from '../../json.ts';
import { earlierMessages } from '../shared/earlier-messages.ts';
import { type AcpConnection, listed } from './acp-connection.ts';
import type { AcpOptions } from './acp-options.ts';

/** The session of a run. */
export interface AcpSession {
  readonly sessionId: string;
  /** The session began with this turn. */
  readonly isNew: boolean;
  /** The agent has the message of the turn already, and has to continue. */
  readonly continues: boolean;
  /** Updates of the turn that the agent has repeated while it loaded the session. */
  readonly replayed: readonly JsonObject[];
  /** The earlier conversation as text, if the agent does not know it. */
  readonly earlier: string;
  /** How many chunks of user messages the session has. */
  readonly users: number;
  /** The modes and options of the session, as the agent described them. */
  readonly state: JsonObject;
}

/** What the task log keeps, to know in a later run whether the agent has got a message. */
interface SentMark {
  readonly sessionId: string;
  readonly turn: string;
  readonly users: number;
}

const MARK = 'acp/sent';
/** Updates of a session that are kept while it is loaded. */
const MAX_REPLAY = 100_000;

/** Collects what the agent repeats while it loads a session: the part after the last prompt. */
export class LoadedUpdates {
  readonly updates: JsonObject[] = [];
  users = 0;

  add(update: JsonObject): void {
    if (update['sessionUpdate'] === 'user_message_chunk') {
      this.users += 1;
      this.updates.length = 0;
    } else if (this.updates.length < MAX_REPLAY) this.updates.push(update);
  }
}

/**
 * Opens the session of a turn: that of the task, if the agent can load it, else a new one that gets
 * the earlier conversation as text. The session of another task of the context is forked, if the
 * agent can do that, since two tasks must not write to one session.
 */
export async function openAcpSession(
  connection: AcpConnection,
  turn: Turn,
  ctx: AgentContext,
  place: JsonObject,
  collect: (replay: LoadedUpdates | undefined) => void,
): Promise<AcpSession> {
  const isAgain = ctx.task.current?.messageId === turn.messageId && ctx.task.attempt > 0;
  const own = ctx.task.attempt > 0 ? ctx.task.sessionId : undefined;
  if (own !== undefined) {
    const opened = await openOwn(connection, own, turn, ctx, place, collect, isAgain);
    if (opened) return opened;
    if (isAgain && !isAnswered(ctx))
      throw new DuolaneError(
        'interrupted',
        'the run was interrupted, and the agent cannot load its session; send the message again to repeat it',
      );
  }
  const forked = own === undefined ? await forkEarlier(connection, turn, ctx, place) : undefined;
  if (forked !== undefined) return forked;
  const response = asObject(await connection.start('session/new', place));
  const sessionId = asString(response['sessionId']);
  if (sessionId === '')
    throw new DuolaneError(
      'malformed',
      'the agent sent a session without an id: expected sessionId',
    );
  return { ...FRESH, sessionId, state: response, earlier: await earlierText(turn, ctx) };
}

const FRESH: Omit<AcpSession, 'sessionId'> = {
  isNew: true,
  continues: false,
  replayed: [],
  earlier: '',
  users: 0,
  state: {},
};

async function openOwn(
  connection: AcpConnection,
  sessionId: string,
  turn: Turn,
  ctx: AgentContext,
  place: JsonObject,
  collect: (replay: LoadedUpdates | undefined) => void,
  isAgain: boolean,
): Promise<AcpSession | undefined> {
  const found = { ...FRESH, sessionId, isNew: false };
  try {
    if (connection.can('loadSession')) {
      const replay = new LoadedUpdates();
      collect(replay);
      const state = asObject(await connection.start('session/load', { ...place, sessionId }));
      collect(undefined);
      const mark = isAgain ? await markOf(ctx, sessionId, turn) : undefined;
      const continues = isAgain && replay.users > (mark?.users ?? 0);
      return {
        ...found,
        continues,
        replayed: continues ? replay.updates : [],
        users: replay.users,
        state,
      };
    }
    // Without a repetition it is unknown whether the agent has got the message of this turn.
    if (!connection.can('sessionCapabilities', 'resume') || isAgain) return undefined;
    const state = asObject(await connection.start('session/resume', { ...place, sessionId }));
    return { ...found, state };
  } catch (error) {
    collect(undefined);
    const { code } = DuolaneError.from(error);
    if (code === 'unauthorized' || code === 'peer_exited' || code === 'timeout') throw error;
    ctx.logger.warn('the agent could not load its session', { sessionId, error: String(error) });
    return undefined;
  }
}

async function forkEarlier(
  connection: AcpConnection,
  turn: Turn,
  ctx: AgentContext,
  place: JsonObject,
): Promise<AcpSession | undefined> {
  if (!connection.can('sessionCapabilities', 'fork')) return undefined;
  for await (const { task, sessionId } of ctx.history()) {
    if (task === turn.task || sessionId === undefined) continue;
    try {
      const state = asObject(await connection.start('session/fork', { ...place, sessionId }));
      const forked = asString(state['sessionId']);
      return forked === '' ? undefined : { ...FRESH, sessionId: forked, isNew: false, state };
    } catch (error) {
      if (DuolaneError.from(error).code === 'peer_exited') throw error;
      ctx.logger.warn('the agent could not fork a session', { sessionId, error: String(error) });
      return undefined;
    }
  }
  return undefined;
}

/** Stores that the message is about to be sent. */
export async function markSent(
  { sessionId, users }: AcpSession,
  turn: Turn,
  { storage }: AgentContext,
): Promise<void> {
  const mark: SentMark = { sessionId, turn: turn.messageId, users };
  await storage?.set({ [MARK]: mark });
}

async function markOf(
  { storage }: AgentContext,
  sessionId: string,
  turn: Turn,
): Promise<SentMark | undefined> {
  if (!storage) return undefined;
  for await (const [key, value] of storage.list(MARK)) {
    const { turn: sent, sessionId: of, users } = asObject(value);
    // Not sent in this turn: what the session has is of earlier turns.
    if (key !== MARK) continue;
    if (sent !== turn.messageId || of !== sessionId)
      return { sessionId, turn: turn.messageId, users: Infinity };
    return { sessionId, turn: turn.messageId, users: asNumber(users) ?? 0 };
  }
  return { sessionId, turn: turn.messageId, users: Infinity };
}

/** Whether a person has answered a question of this run, which it has to ask again to continue. */
const isAnswered = ({ task }: AgentContext): boolean =>
  task.answers.length > 0 || (task.spent?.length ?? 0) > 0;

async function earlierText(turn: Turn, ctx: AgentContext): Promise<string> {
  const messages = await earlierMessages(turn, ctx);
  if (messages.length === 0) return '';
  const lines = messages.map(({ role, text }) => `${role === 'user' ? 'User' : 'You'}: ${text}`);
  return `The conversation so far:\n\n${lines.join('\n\n')}\n\nThe new message of the user:`;
}

/** Sets the mode and the options of the session, by their ids. Throws `invalid` with the ids. */
export async function configureSession(
  connection: AcpConnection,
  { sessionId, state }: AcpSession,
  { mode, config = {} }: AcpOptions,
): Promise<void> {
  if (mode !== undefined) {
    const modes = asObject(state['modes'])['availableModes'];
    if (!asObjects(modes).some(({ id }) => id === mode))
      throw invalid(`unknown mode "${mode}": expected one of the agent's modes ${listed(modes)}`);
    await connection.start('session/set_mode', { sessionId, modeId: mode });
  }
  for (const [configId, value] of Object.entries(config)) {
    const options = state['configOptions'];
    if (!asObjects(options).some(({ id }) => id === configId))
      throw invalid(
        `unknown option "${configId}" in config: expected one of the agent's options ${listed(options)}`,
      );
    const type = typeof value === 'boolean' ? { type: 'boolean' } : {};
    await connection.start('session/set_config_option', { sessionId, configId, value, ...type });
  }
}
