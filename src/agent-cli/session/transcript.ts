import { randomUUID } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DuolaneError, errorMessage } from '../../errors.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { encodeLine } from '../../wire/jsonl.ts';
import { isSessionId, parseTranscript, projectDir, projectKey } from '../../wire/transcript.ts';
import { History } from './history.ts';
import type { Block } from '../models/types.ts';
import { asArray, asObject, asString, type JsonObject } from '../../json.ts';

/** One message of a transcript file. */
export interface TranscriptEntry extends JsonObject {
  readonly type: 'user' | 'assistant';
  readonly uuid: string;
  readonly message: JsonObject;
}

export interface TranscriptLocation {
  /** The folder of all sessions: `CLAUDE_CONFIG_DIR`, or `~/.duolane`. */
  readonly configDir: string;
  readonly cwd: string;
}

/** The folder of the sessions of one working directory. */
export const sessionDir = ({ configDir, cwd }: TranscriptLocation): string =>
  projectDir(configDir, projectKey(cwd));

/** The history of a session, from its entries. */
export function historyFrom(entries: readonly TranscriptEntry[]): History {
  const conversation = new History();
  for (const entry of entries) {
    const { type, message } = entry;
    const isMeta = entry['isMeta'] === true;
    const output = 'structured_output' in entry ? { value: entry['structured_output'] } : undefined;
    const { content } = message;
    const blocks =
      typeof content === 'string' ? [{ type: 'text', text: content }] : asArray(content);
    for (const block of blocks as readonly Block[]) {
      if (type === 'assistant') conversation.addAnswer(asString(message['id']), block);
      else if (block.type !== 'tool_result') conversation.addUser([block], { isMeta });
      else conversation.addResult(block, output);
    }
  }
  return conversation;
}

/** The messages of a transcript file. Invalid lines and other kinds of entries are skipped. */
export async function readEntries(file: string): Promise<TranscriptEntry[]> {
  const { readFile } = await import('node:fs/promises');
  return parseTranscript(await readFile(file, 'utf8')).filter(isEntry);
}

const isEntry = (line: JsonObject): line is TranscriptEntry =>
  (line['type'] === 'user' || line['type'] === 'assistant') &&
  typeof line['uuid'] === 'string' &&
  typeof asObject(line['message'])['role'] === 'string';

/**
 * The file of the session `id`, in this project or another; undefined if it does not exist. An id
 * with a path separator is never found, because it would reach outside the folder.
 */
export async function findSession(
  place: TranscriptLocation,
  id: string,
): Promise<string | undefined> {
  if (!isSessionId(id)) return undefined;
  const { access, readdir } = await import('node:fs/promises');
  const all = join(place.configDir, 'projects');
  // A folder that does not exist has no sessions.
  const others = (await readdir(all).catch(() => [])).map((name) => join(all, name));
  for (const folder of [sessionDir(place), ...others]) {
    const file = join(folder, `${id}.jsonl`);
    const there = await access(file).then(
      () => true,
      () => false,
    );
    if (there) return file;
  }
  return undefined;
}

/** The session of this project that was written to last. */
export async function newestSession(place: TranscriptLocation): Promise<string | undefined> {
  const { readdir, stat } = await import('node:fs/promises');
  const folder = sessionDir(place);
  // A folder that does not exist has no sessions.
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith('.jsonl'));
  const dated = await Promise.all(
    names.map(async (name) => ({ name, at: (await stat(join(folder, name))).mtimeMs })),
  );
  return dated.toSorted((a, b) => b.at - a.at)[0]?.name.slice(0, -'.jsonl'.length);
}

/** A message with the id that the host knows it by. */
interface RecordedMessage {
  readonly message: JsonObject;
  readonly uuid?: string;
  /** Members of the entry that the model does not get. */
  readonly extra?: EntryExtra;
}

export interface EntryExtra {
  /** The CLI wrote the message itself: it is not a prompt. */
  readonly isMeta?: true;
  /** The value that the tool for structured output has accepted. */
  readonly structured_output?: unknown;
}

interface TranscriptOptions {
  readonly file: string;
  readonly sessionId: string;
  readonly cwd: string;
  readonly persist: boolean;
  /** Called with every entry, for `transcript_mirror`. */
  readonly mirror?: ((entries: readonly TranscriptEntry[]) => void) | undefined;
}

/**
 * Appends a session to its file: one complete line per entry, in order. `append` never waits and
 * never throws. `saved()` resolves when everything is written, or throws the error: a full disk
 * ends the turn with an error instead of losing it.
 */
export class Transcript implements AsyncDisposable {
  readonly #options: TranscriptOptions;
  #handle: FileHandle | undefined;
  #tail: Promise<void> = Promise.resolve();
  #failure: DuolaneError | undefined;
  #parent: string | null = null;

  constructor(options: TranscriptOptions) {
    this.#options = options;
  }

  /** Appends messages together: a mirror gets all of them or none. */
  append(type: TranscriptEntry['type'], messages: readonly RecordedMessage[]): void {
    const { cwd, sessionId } = this.#options;
    const entries = messages.map(({ message, uuid = randomUUID(), extra }): TranscriptEntry => {
      const parentUuid = this.#parent;
      this.#parent = uuid;
      return {
        parentUuid,
        isSidechain: false,
        userType: 'external',
        cwd,
        sessionId,
        version: '1',
        type,
        message,
        uuid,
        timestamp: new Date().toISOString(),
        ...extra,
      };
    });
    this.#add(entries);
  }

  /**
   * Continues from the entries of another session; `copy` writes them to this session's file, too.
   */
  continueFrom(entries: readonly TranscriptEntry[], { copy }: { readonly copy: boolean }): void {
    this.#parent = entries.at(-1)?.uuid ?? null;
    const { sessionId } = this.#options;
    if (copy) this.#add(entries.map((entry) => ({ ...entry, sessionId })));
  }

  async saved(): Promise<void> {
    await this.#tail;
    if (this.#failure) throw this.#failure;
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    await this.#tail;
    await this.#handle?.close();
    this.#handle = undefined;
  });

  #add(entries: readonly TranscriptEntry[]): void {
    if (entries.length === 0) return;
    this.#options.mirror?.(entries);
    if (this.#options.persist) this.#tail = this.#tail.then(() => this.#write(entries));
  }

  async #write(entries: readonly TranscriptEntry[]): Promise<void> {
    if (this.#failure) return;
    try {
      this.#handle ??= await openForAppend(this.#options.file);
      await this.#handle.appendFile(entries.map(encodeLine).join(''));
    } catch (cause) {
      const why = errorMessage(cause);
      this.#failure = new DuolaneError('internal', `the session could not be saved: ${why}`, {
        cause,
      });
    }
  }
}

async function openForAppend(file: string): Promise<FileHandle> {
  const { mkdir, open } = await import('node:fs/promises');
  // Only the owner may read a transcript. An existing folder keeps its mode, because it may be
  // shared.
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const handle = await open(file, 'a+', 0o600);
  const stats = await handle.stat();
  // Earlier versions created readable files, so the mode is set again. It fails for a file of
  // another owner.
  if (stats.isFile()) await handle.chmod(0o600).catch(() => {});
  const { size } = stats;
  if (size > 0) {
    // A crash may have left half a line. Without a line end, the next entry would become part of
    // it.
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(1), 0, 1, size - 1);
    if (bytesRead === 1 && buffer[0] !== 0x0a) await handle.appendFile('\n');
  }
  return handle;
}
