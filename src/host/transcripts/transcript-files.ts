import {
  asObject,
  asObjects,
  asString,
  isObject,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';
import { isMainThread, type SessionStoreEntry, transcriptBranch } from '../../wire/transcript.ts';

/** The description of a session, read from its transcript. */
export interface SDKSessionInfo {
  readonly sessionId: string;
  /** The title, else the first prompt. */
  readonly summary: string;
  readonly lastModified: number;
  readonly fileSize?: number;
  readonly customTitle?: string;
  readonly firstPrompt?: string;
  readonly gitBranch?: string;
  readonly cwd?: string;
  readonly tag?: string;
  readonly createdAt?: number;
  /** Whether the session was archived; absent if it never was. */
  readonly archived?: boolean;
}

/** Describes a session; undefined for one without a prompt, which cannot be resumed. */
export function infoOf(
  sessionId: string,
  entries: readonly SessionStoreEntry[],
  file: Pick<SDKSessionInfo, 'lastModified' | 'fileSize' | 'archived'>,
): SDKSessionInfo | undefined {
  const first = entries.find(isPrompt);
  const firstPrompt = first && shortened(promptText(first) ?? '');
  const customTitle = last(entries, 'customTitle') ?? last(entries, 'aiTitle');
  const summary = customTitle ?? last(entries, 'summary') ?? firstPrompt;
  if (summary === undefined) return undefined;
  const [gitBranch, cwd, tag] = ['gitBranch', 'cwd', 'tag'].map((name) => last(entries, name));
  const created = Date.parse(entries.find(({ timestamp }) => timestamp)?.timestamp ?? '');
  return omitUndefined<SDKSessionInfo>({
    sessionId,
    summary,
    ...file,
    customTitle,
    firstPrompt,
    gitBranch,
    cwd,
    // An empty tag removes an earlier one.
    tag: tag || undefined,
    createdAt: Number.isFinite(created) ? created : undefined,
  });
}

/** A message of a session, read from its transcript. */
export interface SessionMessage {
  readonly type: 'user' | 'assistant';
  readonly uuid: string;
  readonly session_id: string;
  readonly message: unknown;
  readonly parent_tool_use_id: null;
  /** On messages of a sub-agent. */
  readonly parent_agent_id?: string | null;
  readonly timestamp?: string;
}

/** The user and assistant messages of the main conversation that lead to the last one, in order. */
export const messagesOf = (entries: readonly SessionStoreEntry[]): SessionMessage[] =>
  (transcriptBranch(entries) ?? []).flatMap((entry) => {
    const { type, uuid, message, timestamp } = entry;
    if ((type !== 'user' && type !== 'assistant') || entry['isSidechain'] === true) return [];
    if (entry['isMeta'] === true || !isObject(message)) return [];
    const session_id = asString(entry['sessionId'] ?? entry['session_id']);
    const rest = { parent_tool_use_id: null, ...(timestamp !== undefined && { timestamp }) };
    return [{ type, uuid: asString(uuid), session_id, message, ...rest }];
  });

function last(entries: readonly SessionStoreEntry[], member: string): string | undefined {
  const value = entries.findLast((entry) => typeof entry[member] === 'string')?.[member];
  return typeof value === 'string' ? value : undefined;
}

const SUMMARY_CHARS = 200;

function shortened(text: string): string {
  const lines = text.split('\n').map((line) => line.trim());
  const line = lines.filter(Boolean).join(' ');
  return line.length > SUMMARY_CHARS ? `${line.slice(0, SUMMARY_CHARS)}…` : line;
}

/**
 * Whether an entry is a prompt of a person. Commands of the CLI are recorded as user messages, too.
 */
const isPrompt = (entry: SessionStoreEntry): boolean =>
  entry.type === 'user' &&
  isMainThread(entry) &&
  entry['isMeta'] !== true &&
  !/^<(?:local-)?command-|^$/.test(promptText(entry) ?? '');

function promptText({ message }: JsonObject): string | undefined {
  const { content } = asObject(message);
  if (typeof content === 'string') return content;
  const block = asObjects(content).find(({ type }) => type === 'text');
  return typeof block?.['text'] === 'string' ? block['text'] : undefined;
}
