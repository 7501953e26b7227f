import { homedir } from 'node:os';
import { join } from 'node:path';
import { isObject, type JsonObject } from '../json.ts';
import { Noise, parseLine } from '../wire/jsonl.ts';
import type { SessionKey, SessionStoreEntry } from './store.ts';
import { textOf } from './text.ts';

/** Where CLIs keep their sessions: `CLAUDE_CONFIG_DIR`, else the homes of ours and of the vendor's. */
export const configDirs = (): readonly string[] => {
  const set = process.env['CLAUDE_CONFIG_DIR'];
  return set ? [set] : [join(homedir(), '.duolane'), join(homedir(), '.claude')];
};

/** The name of a project's folder. */
export const projectKey = (cwd: string): string => cwd.replace(/[^A-Za-z0-9]/g, '-');

/** Where the transcript of a session lies below a configuration folder. */
export const transcriptPath = (
  configDir: string,
  { projectKey: key, sessionId }: SessionKey,
): string => join(configDir, 'projects', key, `${sessionId}.jsonl`);

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
    .filter((entry): entry is JsonObject => !(entry instanceof Noise));

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
}

export function infoOf(
  sessionId: string,
  entries: readonly SessionStoreEntry[],
  file: { readonly lastModified: number; readonly fileSize?: number },
): SDKSessionInfo {
  const first = entries.find(isPrompt);
  const firstPrompt = first && promptText(first);
  const customTitle = last(entries, 'customTitle');
  const gitBranch = last(entries, 'gitBranch');
  const cwd = last(entries, 'cwd');
  return {
    sessionId,
    summary: customTitle ?? last(entries, 'summary') ?? firstPrompt ?? '',
    ...file,
    ...(customTitle !== undefined && { customTitle }),
    ...(firstPrompt !== undefined && { firstPrompt }),
    ...(gitBranch !== undefined && { gitBranch }),
    ...(cwd !== undefined && { cwd }),
  };
}

/** A message of a transcript. */
export interface SessionMessage {
  readonly type: 'user' | 'assistant';
  readonly uuid: string;
  readonly session_id: string;
  readonly message: unknown;
  readonly parent_tool_use_id: null;
}

/** The conversation: user and assistant messages of the main thread, in order. */
export const messagesOf = (entries: readonly SessionStoreEntry[]): SessionMessage[] =>
  entries.flatMap((entry) => {
    const { type, uuid, message } = entry;
    if ((type !== 'user' && type !== 'assistant') || entry['isSidechain'] === true) return [];
    if (entry['isMeta'] === true || !isObject(message)) return [];
    const session_id = textOf(entry['sessionId'] ?? entry['session_id']);
    return [{ type, uuid: textOf(uuid), session_id, message, parent_tool_use_id: null }];
  });

function last(entries: readonly SessionStoreEntry[], member: string): string | undefined {
  const value = entries.findLast((entry) => typeof entry[member] === 'string')?.[member];
  return typeof value === 'string' ? value : undefined;
}

const isPrompt = (entry: JsonObject): boolean =>
  entry['type'] === 'user' && entry['isMeta'] !== true && promptText(entry) !== undefined;

function promptText({ message }: JsonObject): string | undefined {
  const content = isObject(message) ? message['content'] : undefined;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return undefined;
  const text = content.find((block) => isObject(block) && block['type'] === 'text') as
    | { readonly text?: unknown }
    | undefined;
  return typeof text?.text === 'string' ? text.text : undefined;
}
