import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentContext, AgentStorage, Frame, OpenCall, Snapshot } from '../event/types.ts';
import type { SessionKey, SessionStore, SessionStoreEntry } from '../host/index.ts';
import { asObject, asString, asStrings, isObject, type JsonObject } from '../json.ts';
import type { ToolResult } from '../mcp/types.ts';
import {
  countIncomplete,
  nextTo,
  readProgress,
  resultEntry,
  resultsIn,
  splitArriving,
  type TranscriptCall,
  type TranscriptProgress,
  type TurnEnds,
  withoutUnanswered,
} from './transcript-progress.ts';

const ROOT = 'cli';
/** Not under `ROOT`: a session that has nothing but exits does not exist. */
const EXITS = 'cli-exits';
/** Enough digits for the order of keys to be the order of numbers. */
const DIGITS = 9;

const PROMPT_MS = 5000;
const POLL_MS = 10;
/** A model that pauses for longer within a message does not delay the calls that it has made. */
const PAUSE_MS = 2000;

/**
 * Keeps the transcripts of an agent CLI with the task, one value per entry:
 *
 * - `cli/<session>/main/<number>`: the transcript; `…/sub/<part>/<number>` that of a subagent
 * - `cli/<session>/ahead/<number>`: messages that the CLI has sent and not yet written
 * - `cli/<session>/start/<call>` and `…/result/<call>`: the arguments and the result of a call of
 *   an in-process tool, as long as the transcript lacks the result
 * - `cli/<session>/permit/<call>`: the CLI has got the permission for the call, as long as the
 *   transcript lacks the result
 * - `cli-exits/<session>`: how often in a row the CLI exited
 *
 * The project of a key is ignored: it is made from the working directory, which differs between
 * machines. A session that this task does not have is read from the task of the same context that
 * has it.
 */
export class TaskSessionStore implements SessionStore {
  readonly #storage: AgentStorage;
  readonly #history: AgentContext['history'];
  /** By prefix, the number of the next entry. */
  readonly #next = new Map<string, number>();
  /** Messages that the transcript lacks, by id, and their keys if they are stored. */
  readonly #ahead = new Map<string, AheadMessage>();
  /** Entries of the transcript that wait for the end of a message. */
  readonly #waiting: {
    readonly key: SessionKey;
    readonly entries: readonly SessionStoreEntry[];
  }[] = [];
  readonly #written = new Set<string>();
  readonly #recorded = new Set<string>();
  /** While a model message arrives: the time of its last part. */
  #arriving: number | undefined;
  #arrivingId: string | undefined;
  #storingWaiting: Promise<void> | undefined;
  #storing: Promise<void> | undefined;

  constructor(storage: AgentStorage, history: AgentContext['history']) {
    this.#storage = storage;
    this.#history = history;
  }

  /**
   * Stores entries of a transcript. Those of a message that is still arriving wait for its end: our
   * CLI writes the first calls of a message while the others arrive, and after a crash the model
   * would not be asked for the rest.
   */
  async append(key: SessionKey, entries: readonly SessionStoreEntry[]): Promise<void> {
    const { ready, waits } = splitArriving(entries, this.#arrivingId, this.#waiting.length > 0);
    if (waits.length > 0) this.#waiting.push({ key, entries: waits });
    if (ready.length > 0) await this.#append(key, ready);
    await this.storeComplete();
  }

  /** Stores the entries that waited, if the message is complete now. */
  async storeComplete(): Promise<void> {
    await this.#storingWaiting;
    if (this.#arriving !== undefined || this.#waiting.length === 0) return;
    const all = this.#waiting.splice(0);
    this.#storingWaiting = (async () => {
      for (const { key, entries } of all) await this.#append(key, entries);
    })();
    await this.#storingWaiting;
  }

  async #append(key: SessionKey, entries: readonly SessionStoreEntry[]): Promise<void> {
    const { sessionId } = key;
    const values: Record<string, unknown> = await this.#numbered(prefixOf(key), entries);
    for (const entry of entries) {
      const { uuid } = entry;
      if (uuid === undefined) continue;
      this.#written.add(uuid);
      const ahead = this.#ahead.get(uuid);
      if (ahead?.key !== undefined) values[ahead.key] = undefined;
      this.#ahead.delete(uuid);
      for (const callId of resultsIn(entry))
        if (this.#recorded.delete(callId)) Object.assign(values, forgotten(sessionId, callId));
    }
    await this.#storage.set(values);
  }

  async load(key: SessionKey): Promise<readonly SessionStoreEntry[] | null> {
    const stored = await this.#list(prefixOf(key), await this.#ownerOf(key));
    return stored.length > 0 ? stored.map(([, entry]) => entry) : null;
  }

  async listSubkeys(key: SessionKey): Promise<readonly string[]> {
    const root = `${sessionPrefix(key)}sub/`;
    const found = new Set<string>();
    for await (const [name] of this.#storage.list(root, await this.#ownerOf(key)))
      found.add(decodeURIComponent(name.slice(root.length, name.lastIndexOf('/'))));
    return [...found];
  }

  /** Whether this task, or the given one, has anything of the session. */
  async has(sessionId: string, task?: Pick<Snapshot, 'task'>): Promise<boolean> {
    for await (const _ of this.#storage.list(sessionPrefix({ sessionId }), task)) return true;
    return false;
  }

  /**
   * Resolves when the transcript has the entry, or after some time. A CLI writes its prompt with
   * context that the messages lack, so that waiting for it is better than storing it ahead.
   */
  async written(uuid: string, signal: AbortSignal): Promise<void> {
    const end = performance.now() + PROMPT_MS;
    while (!signal.aborted && !this.#written.has(uuid) && performance.now() < end)
      await sleep(POLL_MS);
  }

  /**
   * Resolves when the model message that is arriving is complete. The vendor's CLI makes a call as
   * soon as it has it; if the process died then, the transcript would lack the rest of the message,
   * and no request could repeat it without repeating the call.
   */
  async messageComplete(signal: AbortSignal): Promise<void> {
    while (
      !signal.aborted &&
      this.#arriving !== undefined &&
      performance.now() - this.#arriving < PAUSE_MS
    )
      await sleep(POLL_MS);
  }

  /**
   * Takes every frame when it arrives. A CLI may write its transcript later than it sends a message
   * and calls a tool of it; `storeAhead` stores such messages.
   */
  observe({ lane, direction, data }: Frame): void {
    if (lane !== 'message' || (direction === 'out' && data['type'] !== 'user')) return;
    const isStreamed =
      data['type'] === 'stream_event' && asString(data['parent_tool_use_id']) === '';
    if (isStreamed) this.#arriving = performance.now();
    const started = isStreamed && asObject(asObject(data['event'])['message'])['id'];
    if (typeof started === 'string') this.#arrivingId = started;
    if (isMessageEnd(data) || resultsIn(data).length > 0 || data['type'] === 'result')
      this.#completeMessages();
    for (const uuid of asStrings(data['discarded_uuids'])) this.#ahead.delete(uuid);
    const { type, uuid, message, parent_tool_use_id: parent, tool_use_result, session_id } = data;
    if (typeof uuid !== 'string' || this.#written.has(uuid) || asString(parent) !== '') return;
    const isOurs = direction === 'out' || resultsIn(data).length > 0;
    const isKept = type === 'assistant' ? data['error'] === undefined : isOurs;
    if ((type !== 'assistant' && type !== 'user') || !isKept) return;
    const result = tool_use_result !== undefined && { toolUseResult: tool_use_result };
    const timestamp = new Date().toISOString();
    const entry = { type, uuid, message, sessionId: session_id, timestamp, ...result };
    this.#ahead.set(uuid, { entry, isOpen: type === 'assistant' });
  }

  #completeMessages(): void {
    this.#arriving = undefined;
    this.#arrivingId = undefined;
    for (const ahead of this.#ahead.values()) ahead.isOpen = false;
  }

  /**
   * Stores the messages that the transcript lacks, one call after the other. A model message that
   * is still arriving is not stored, since its rest would be missing after a crash. With `all` it
   * is: the CLI is about to make one of its calls.
   */
  async storeAhead(
    sessionId: string,
    { all = false }: { readonly all?: boolean } = {},
  ): Promise<void> {
    if (all) this.#completeMessages();
    await this.storeComplete();
    while (this.#storing) await this.#storing;
    const waiting = [...this.#ahead.values()].filter(
      ({ key, isOpen }) => key === undefined && !isOpen,
    );
    if (waiting.length === 0) return;
    this.#storing = this.#storeAll(`${sessionPrefix({ sessionId })}ahead/`, waiting);
    try {
      await this.#storing;
    } finally {
      this.#storing = undefined;
    }
  }

  async #storeAll(prefix: string, waiting: readonly AheadMessage[]): Promise<void> {
    const entries = waiting.map(({ entry }) => entry);
    const values = await this.#numbered(prefix, entries);
    const keys = Object.keys(values);
    for (const [index, ahead] of waiting.entries()) ahead.key = keys[index] as string;
    await this.#storage.set(values);
  }

  /**
   * Stores that the CLI makes a call, so it was allowed, and with which arguments. A run that
   * continues after a crash may then make the call again.
   */
  async recordStart(sessionId: string, callId: string, args: JsonObject): Promise<void> {
    this.#recorded.add(callId);
    await this.#storage.set({ [startKey(sessionId, callId)]: args });
  }

  /** The arguments of a call that the CLI has made; undefined if it has not. */
  async startOf(sessionId: string, callId: string): Promise<JsonObject | undefined> {
    return this.#valueOf(startKey(sessionId, callId));
  }

  /** Stores that the CLI gets the permission for a call, and may make it from now on. */
  async recordPermit(sessionId: string, callId: string): Promise<void> {
    this.#recorded.add(callId);
    await this.#storage.set({ [permitKey(sessionId, callId)]: {} });
  }

  /** Whether the CLI may have made a call that a person has permitted. */
  async isPermitted(sessionId: string, callId: string): Promise<boolean> {
    return (await this.#valueOf(permitKey(sessionId, callId))) !== undefined;
  }

  /** Stores the result of a call before the CLI gets it: the tool is not called again. */
  async recordResult(sessionId: string, callId: string, result: ToolResult): Promise<void> {
    this.#recorded.add(callId);
    await this.#storage.set({ [resultKey(sessionId, callId)]: result });
  }

  async resultOf(sessionId: string, callId: string): Promise<ToolResult | undefined> {
    const value = await this.#valueOf(resultKey(sessionId, callId));
    return value as ToolResult | undefined;
  }

  /**
   * Counts an exit of the CLI, and returns how many there were in a row: those before the model
   * finished a step (`hasProgress`) do not count.
   */
  async countExit(sessionId: string, hasProgress: boolean): Promise<number> {
    const key = `${EXITS}/${encodeURIComponent(sessionId)}`;
    const before = hasProgress ? undefined : await this.#valueOf(key);
    const exits = Number(before?.['exits'] ?? 0) + 1;
    await this.#storage.set({ [key]: { exits } });
    return exits;
  }

  async #valueOf(wanted: string): Promise<JsonObject | undefined> {
    for await (const [key, value] of this.#storage.list(wanted))
      if (key === wanted && isObject(value)) return value;
    return undefined;
  }

  /**
   * Prepares the session of this task to be continued: completes its transcript with the messages
   * that the CLI had sent and not written, and removes a message that is incomplete. With `again`,
   * a prompt that the model has not answered is removed, too, to be sent again. Returns how far the
   * turn of the prompt has come; undefined if the transcript lacks the prompt. `needsOutput`: each
   * turn ends with a structured output. `mayRepeat`: a model message is written again if it has
   * only such calls and none of them was made.
   */
  async openTurn(
    sessionId: string,
    prompt: string,
    { again, needsOutput, mayRepeat }: OpenTurn,
  ): Promise<TranscriptProgress | undefined> {
    const prefix = prefixOf({ sessionId });
    const main = await this.#list(prefix);
    const ahead = await this.#list(`${sessionPrefix({ sessionId })}ahead/`);
    const entries = main.map(([, entry]) => entry);
    const known = new Set(entries.map(({ uuid }) => uuid));
    const added: SessionStoreEntry[] = [];
    for (const [, entry] of ahead) {
      if (known.has(entry.uuid)) continue;
      const last = [...entries, ...added].findLast(({ uuid }) => uuid !== undefined);
      added.push({ ...nextTo(last ?? { isSidechain: false, userType: 'external' }), ...entry });
    }
    const all = [...entries, ...added];
    const begun = await this.#callsBegun(sessionId);
    const isNotBegun: OpenTurn['mayRepeat'] = (call) => !begun.has(call.callId) && mayRepeat(call);
    const complete = all.slice(
      0,
      all.length - countIncomplete(all, { needsOutput: needsOutput && again, isNotBegun }),
    );
    const kept = again ? withoutUnanswered(complete, prompt) : complete;
    const values = await this.#numbered(prefix, kept.slice(entries.length));
    for (const [key] of [...ahead, ...main.slice(kept.length)]) values[key] = undefined;
    for (const callId of added.flatMap(resultsIn))
      Object.assign(values, forgotten(sessionId, callId));
    if (Object.keys(values).length > 0) await this.#storage.set(values);
    return readProgress(kept, prompt, { needsOutput });
  }

  /** The calls of which anything is stored: they were made, permitted, or have ended. */
  async #callsBegun(sessionId: string): Promise<ReadonlySet<string>> {
    const begun = new Set<string>();
    for (const kind of ['start', 'permit', 'result']) {
      const root = `${sessionPrefix({ sessionId })}${kind}/`;
      for await (const [key] of this.#storage.list(root))
        begun.add(decodeURIComponent(key.slice(root.length)));
    }
    return begun;
  }

  /** Writes the result of an open call to the transcript, as the CLI would have done. */
  async closeCall(sessionId: string, call: TranscriptCall, result: ToolResult): Promise<void> {
    this.#recorded.add(call.callId);
    await this.#append({ projectKey: '', sessionId }, [resultEntry(call, result)]);
  }

  /** The earlier task that has the session; undefined for a session of this task. */
  async #ownerOf({ sessionId }: Pick<SessionKey, 'sessionId'>): Promise<Snapshot | undefined> {
    if (await this.has(sessionId)) return undefined;
    for await (const earlier of this.#history())
      if (earlier.sessionId === sessionId && (await this.has(sessionId, earlier))) return earlier;
    return undefined;
  }

  /** The entries under their keys. */
  async #numbered(
    prefix: string,
    entries: readonly SessionStoreEntry[],
  ): Promise<Record<string, unknown>> {
    const first = this.#next.get(prefix) ?? (await this.#count(prefix));
    // Set before the write, which may be done although it reports an error. A number that is
    // missing does no harm, one that is used twice loses an entry.
    this.#next.set(prefix, first + entries.length);
    return Object.fromEntries(
      entries.map((entry, n) => [`${prefix}${String(first + n).padStart(DIGITS, '0')}`, entry]),
    );
  }

  async #count(prefix: string): Promise<number> {
    let last = -1;
    for await (const [name] of this.#storage.list(prefix)) last = Number(name.slice(prefix.length));
    return last + 1;
  }

  async #list(prefix: string, task?: Snapshot): Promise<[key: string, SessionStoreEntry][]> {
    const found: [string, SessionStoreEntry][] = [];
    for await (const [key, entry] of this.#storage.list(prefix, task))
      if (isObject(entry)) found.push([key, entry]);
    return found;
  }
}

/** How a session is prepared to be continued. */
export interface OpenTurn extends TurnEnds {
  readonly again: boolean;
  readonly mayRepeat: (call: Pick<OpenCall, 'callId' | 'name'>) => boolean;
}

/** A message that the CLI has sent and not yet written. */
interface AheadMessage {
  readonly entry: JsonObject;
  /** Further parts of the same model message may arrive. */
  isOpen: boolean;
  key?: string;
}

/** Whether a frame says that a message of the model is complete. */
const isMessageEnd = ({ type, event, parent_tool_use_id: parent }: JsonObject): boolean =>
  type === 'stream_event' && asObject(event)['type'] === 'message_stop' && asString(parent) === '';

const sessionPrefix = ({ sessionId }: Pick<SessionKey, 'sessionId'>): string =>
  `${ROOT}/${encodeURIComponent(sessionId)}/`;

const prefixOf = ({ sessionId, subpath }: Omit<SessionKey, 'projectKey'>): string =>
  `${sessionPrefix({ sessionId })}${subpath === undefined ? 'main' : `sub/${encodeURIComponent(subpath)}`}/`;

const resultKey = (sessionId: string, callId: string): string =>
  `${sessionPrefix({ sessionId })}result/${encodeURIComponent(callId)}`;

const startKey = (sessionId: string, callId: string): string =>
  `${sessionPrefix({ sessionId })}start/${encodeURIComponent(callId)}`;

const permitKey = (sessionId: string, callId: string): string =>
  `${sessionPrefix({ sessionId })}permit/${encodeURIComponent(callId)}`;

/** Deletes what is stored of a call: a later call may have the same id. */
const forgotten = (sessionId: string, callId: string): Readonly<Record<string, undefined>> => ({
  [startKey(sessionId, callId)]: undefined,
  [resultKey(sessionId, callId)]: undefined,
  [permitKey(sessionId, callId)]: undefined,
});
