import { homedir } from 'node:os';
import { join } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import { asString, isObject, type JsonObject } from '../../json.ts';
import { InvalidLine, parseLine } from '../../wire/jsonl.ts';
import type { SessionKey, SessionStoreEntry } from './session-store.ts';

/** Where CLIs keep their sessions: `CLAUDE_CONFIG_DIR`, else the homes of ours and of the vendor's. */
export const configDirs = (): readonly string[] => {
  const set = process.env['CLAUDE_CONFIG_DIR'];
  return set ? [set] : [join(homedir(), '.duolane'), join(homedir(), '.claude')];
};

/** The name of a project's folder. */
export const projectKey = (cwd: string): string => cwd.replace(/[^A-Za-z0-9]/g, '-');

/** Where the transcript of a session lies below a configuration folder, never outside of it. */
export function transcriptPath(
  configDir: string,
  { projectKey: key, sessionId }: SessionKey,
): string {
  if (/[\\/\0]/.test(sessionId))
    throw new DuolaneError(
      'invalid',
      `session id ${JSON.stringify(sessionId)} contains a separator`,
    );
  return join(configDir, 'projects', key, `${sessionId}.jsonl`);
}

/** Which session a transcript file belongs to, by its path. */
export function keyOfPath(path: string): SessionKey | undefined {
  const parts = path.split(/[\\/]/);
  const at = parts.lastIndexOf('projects');
  const [project, file, ...rest] = at < 0 ? [] : parts.slice(at + 1);
  if (project === undefined || file === undefined) return undefined;
  if (rest.length === 0) return { projectKey: project, sessionId: file.replace(/\.jsonl$/, '') };
  const subpath = rest.join('/').replace(/\.jsonl$/, '');
  return { projectKey: project, sessionId: file, subpath };
}

/** The lines of a transcript; lines that are none are left out. */
export const parseTranscript = (text: string): SessionStoreEntry[] =>
  text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map(parseLine)
    .filter((entry): entry is JsonObject => !(entry instanceof InvalidLine));

/** What `listSessions` tells of a session, from its transcript. */
export interface SDKSessionInfo {
  readonly sessionId: string;
  /** A title if it has one, else its first prompt. */
  readonly summary: string;
  readonly lastModified: number;
  readonly fileSize?: number;
  readonly customTitle?: string;
  readonly firstPrompt?: string;
  readonly gitBranch?: string;
  readonly cwd?: string;
  readonly tag?: string;
  readonly createdAt?: number;
}

/** Undefined if nobody has asked anything: no session to go back to. */
export function infoOf(
  sessionId: string,
  entries: readonly SessionStoreEntry[],
  file: { readonly lastModified: number; readonly fileSize?: number },
): SDKSessionInfo | undefined {
  const first = entries.find(isPrompt);
  const firstPrompt = first && shortened(promptText(first) ?? '');
  const customTitle = last(entries, 'customTitle') ?? last(entries, 'aiTitle');
  const summary = customTitle ?? last(entries, 'summary') ?? firstPrompt;
  if (summary === undefined) return undefined;
  const gitBranch = last(entries, 'gitBranch');
  const cwd = last(entries, 'cwd');
  const tag = last(entries, 'tag');
  const createdAt = Date.parse(entries.find(({ timestamp }) => timestamp)?.timestamp ?? '');
  return {
    sessionId,
    summary,
    ...file,
    ...(customTitle !== undefined && { customTitle }),
    ...(firstPrompt !== undefined && { firstPrompt }),
    ...(gitBranch !== undefined && { gitBranch }),
    ...(cwd !== undefined && { cwd }),
    ...(tag !== undefined && { tag }),
    ...(Number.isFinite(createdAt) && { createdAt }),
  };
}

/** A message of a transcript. */
export interface SessionMessage {
  readonly type: 'user' | 'assistant';
  readonly uuid: string;
  readonly session_id: string;
  readonly message: unknown;
  readonly parent_tool_use_id: null;
  readonly timestamp?: string;
}

/** The conversation: user and assistant messages of the main thread that lead to the last, in order. */
export const messagesOf = (entries: readonly SessionStoreEntry[]): SessionMessage[] =>
  branch(entries).flatMap((entry) => {
    const { type, uuid, message, timestamp } = entry;
    if ((type !== 'user' && type !== 'assistant') || entry['isSidechain'] === true) return [];
    if (entry['isMeta'] === true || !isObject(message)) return [];
    const session_id = asString(entry['sessionId'] ?? entry['session_id']);
    const rest = { parent_tool_use_id: null, ...(timestamp !== undefined && { timestamp }) };
    return [{ type, uuid: asString(uuid), session_id, message, ...rest }];
  });

/**
 * Without what was left behind: prompts that were asked again, and what was there before a
 * compaction. An answer of several lines has branches of its own, one for each tool; they belong to it.
 */
function branch(entries: readonly SessionStoreEntry[]): readonly SessionStoreEntry[] {
  const places = new Map(entries.map(({ uuid }, place) => [uuid, place]));
  const parentOf = (entry: SessionStoreEntry, place: number): number => {
    const parent = entry['parentUuid'];
    if (parent === null) return -1;
    // None is said, or it was lost: what stands before is the next best.
    return Math.min(places.get(asString(parent)) ?? place - 1, place - 1);
  };
  const kept = new Set<number>();
  for (let place = entries.findLastIndex(isMain); place >= 0;) {
    kept.add(place);
    place = parentOf(entries[place] as SessionStoreEntry, place);
  }
  const answers = new Set<unknown>([...kept].flatMap((place) => answerId(entries[place]) ?? []));
  for (const [place, entry] of entries.entries()) {
    const isResult = isToolResult(entry) && kept.has(parentOf(entry, place));
    if (isMain(entry) && (isResult || answers.has(answerId(entry)))) kept.add(place);
  }
  return entries.filter((_, place) => kept.has(place));
}

const isMain = ({ type, isSidechain }: SessionStoreEntry): boolean =>
  (type === 'user' || type === 'assistant') && isSidechain !== true;

/** The id of the model's answer that a line is a part of. */
function answerId(entry: SessionStoreEntry | undefined): unknown {
  const message = entry?.type === 'assistant' ? entry['message'] : undefined;
  return isObject(message) ? message['id'] : undefined;
}

function isToolResult({ type, message }: SessionStoreEntry): boolean {
  const content = type === 'user' && isObject(message) ? message['content'] : undefined;
  return (
    Array.isArray(content) &&
    content.some((block) => isObject(block) && block['type'] === 'tool_result')
  );
}

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

/** What a person asked; a command of the CLI is no question. */
const isPrompt = (entry: SessionStoreEntry): boolean =>
  entry.type === 'user' &&
  isMain(entry) &&
  entry['isMeta'] !== true &&
  !/^<(?:local-)?command-|^$/.test(promptText(entry) ?? '');

function promptText({ message }: JsonObject): string | undefined {
  const content = isObject(message) ? message['content'] : undefined;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return undefined;
  const text = content.find((block) => isObject(block) && block['type'] === 'text') as
    | { readonly text?: unknown }
    | undefined;
  return typeof text?.text === 'string' ? text.text : undefined;
}
