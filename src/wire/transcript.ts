import { homedir } from 'node:os';
import { join } from 'node:path';
import { DuolaneError } from '../errors.ts';
import { asArray, asObject, asString, isObject, type JsonObject } from '../json.ts';
import { InvalidLine, parseLine } from './jsonl.ts';

/** Identifies a transcript: a project, a session, and a part of it (a subagent) if any. */
export interface SessionKey {
  readonly projectKey: string;
  readonly sessionId: string;
  readonly subpath?: string;
}

/** One line of a transcript. */
export type SessionStoreEntry = JsonObject & {
  readonly type?: string;
  readonly uuid?: string;
  readonly timestamp?: string;
};

/**
 * The folders where CLIs keep their sessions: `CLAUDE_CONFIG_DIR`, or the folders of
 * `duolane-agent` and of the vendor's CLI in the home folder, in this order.
 */
export const configDirs = (
  env: Readonly<Record<string, string | undefined>>,
  home: string = homedir(),
): readonly [string, ...string[]] => {
  const configured = env['CLAUDE_CONFIG_DIR'];
  return configured ? [configured] : [join(home, '.duolane'), join(home, '.claude')];
};

/** The name of a project's folder. */
export const projectKey = (cwd: string): string => cwd.replace(/[^A-Za-z0-9]/g, '-');

/** The folder of a project's transcripts. */
export const projectDir = (configDir: string, key: string): string =>
  join(configDir, 'projects', key);

/** Whether an id can be the name of a file. One with a separator would reach outside the folder. */
export const isSessionId = (id: string): boolean => !/[\\/\0]/.test(id);

/** Whether the path of a part stays inside the folder of its session. */
export const isSubpath = (path: string): boolean =>
  path.split('/').every((name) => name !== '' && name !== '..' && isSessionId(name));

/** The file of a transcript or of a part of it, always inside the configuration folder. */
export function transcriptPath(configDir: string, key: SessionKey): string {
  const { sessionId, subpath } = key;
  if (!isSessionId(sessionId)) {
    const message = `invalid session id ${JSON.stringify(sessionId)}: expected no path separator`;
    throw new DuolaneError('invalid', message);
  }
  const path = join(projectDir(configDir, key.projectKey), sessionId);
  if (subpath === undefined) return `${path}.jsonl`;
  if (isSubpath(subpath)) return join(path, `${subpath}.jsonl`);
  const message = `invalid part ${JSON.stringify(subpath)} of a session: expected a relative path`;
  throw new DuolaneError('invalid', message);
}

/** The key of a transcript file, from its path. */
export function keyOfPath(path: string): SessionKey | undefined {
  const parts = path.split(/[\\/]/);
  const at = parts.lastIndexOf('projects');
  const [project, file, ...rest] = at < 0 ? [] : parts.slice(at + 1);
  if (project === undefined || file === undefined) return undefined;
  if (rest.length === 0) return { projectKey: project, sessionId: file.replace(/\.jsonl$/, '') };
  const subpath = rest.join('/').replace(/\.jsonl$/, '');
  return { projectKey: project, sessionId: file, subpath };
}

/**
 * The lines of a transcript. Invalid lines are skipped: a crash may leave half a line at the end.
 */
export const parseTranscript = (text: string): SessionStoreEntry[] =>
  text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map(parseLine)
    .filter((entry): entry is JsonObject => !(entry instanceof InvalidLine));

/**
 * The entries that lead to the message `at`, or to the last one, in order; undefined if the message
 * does not exist. Other branches are left out: prompts that were replaced, and what came before a
 * compaction.
 *
 * A model message of several lines has a branch per tool call. Its other lines and the tool results
 * belong to the message, so they are kept; the model would otherwise see calls without results.
 */
export function transcriptBranch<Entry extends SessionStoreEntry>(
  entries: readonly Entry[],
  at?: string,
): Entry[] | undefined {
  const positions = new Map(entries.map(({ uuid }, position) => [uuid, position]));
  const start = at === undefined ? entries.findLastIndex(isMainThread) : positions.get(at);
  if (start === undefined) return undefined;
  const parentOf = (entry: Entry, position: number): number => {
    const parent = entry['parentUuid'];
    if (parent === null) return -1;
    // If the parent is missing, e.g. lost in a crash, the entry before is the best guess.
    return Math.min(positions.get(asString(parent)) ?? position - 1, position - 1);
  };
  const kept = new Set<number>();
  for (let position = start; position >= 0;) {
    kept.add(position);
    position = parentOf(entries[position] as Entry, position);
  }
  const messages = new Set<unknown>([...kept].flatMap((each) => messageId(entries[each]) ?? []));
  return entries.filter((entry, position) => {
    if (kept.has(position)) return true;
    if (position > start || !isMainThread(entry)) return false;
    const belongs =
      messages.has(messageId(entry)) ||
      (isToolResult(entry) && kept.has(parentOf(entry, position)));
    if (belongs) kept.add(position);
    return belongs;
  });
}

/** Whether an entry is a message of the main conversation and not of a subagent. */
export const isMainThread = ({ type, isSidechain }: SessionStoreEntry): boolean =>
  (type === 'user' || type === 'assistant') && isSidechain !== true;

/** The id of the model message that a line is a part of. */
function messageId(entry: SessionStoreEntry | undefined): unknown {
  return entry?.type === 'assistant' ? asObject(entry['message'])['id'] : undefined;
}

function isToolResult({ type, message }: SessionStoreEntry): boolean {
  return (
    type === 'user' &&
    asArray(asObject(message)['content']).some(
      (block) => isObject(block) && block['type'] === 'tool_result',
    )
  );
}
