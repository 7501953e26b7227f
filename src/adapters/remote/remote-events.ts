import { textOf } from '../../a2a/client/task-fold.ts';
import type { A2AArtifact, A2APart, A2AStreamEvent, A2ATask } from '../../a2a/protocol/model.ts';
import { DuolaneError, tooLarge } from '../../errors.ts';
import type { AgentEvent, Part } from '../../event/types.ts';
import { omitUndefined } from '../../json.ts';
import { nameId } from '../../task/name-id.ts';

/**
 * How many artifacts a remote agent may send, and as many with text: each later one costs more, and
 * the limits of a run do not count texts that are empty.
 */
const MAX_ARTIFACTS = 5_000;
/**
 * How many characters of status messages a remote agent may send. The limits of a run do not count
 * them, but the log keeps them. Replaced texts and updates of artifacts count as an event each.
 */
const MAX_STATUS_CHARS = 16 << 20;
const EVENT_CHARS = 256;
const MAX_ID_CHARS = 256;

/** What the caller's log already has of the remote run, when the caller is called again. */
export interface ShownBefore {
  readonly text: string;
  readonly artifacts: ReadonlySet<string>;
}

/**
 * Translates the events of a remote task to agent events. It is a pure state machine. Text that the
 * remote agent streams becomes text, every other artifact stays an artifact. A complete task (the
 * first event after a reconnect or a restart of the caller) adds only what is new, so no text
 * appears twice and none is missing.
 */
export class RemoteEvents {
  readonly #baseUrl: string;
  /** The text of each text artifact, in the order in which they began. */
  readonly #texts = new Map<string, string>();
  /** Text of an earlier process that no artifact has accounted for yet. */
  #shown: string;
  readonly #artifacts: Set<string>;
  #discards = 0;
  #statusChars = 0;

  constructor(baseUrl: string, shown: ShownBefore) {
    this.#baseUrl = baseUrl;
    this.#shown = shown.text;
    this.#artifacts = new Set(shown.artifacts);
  }

  /** Whether the remote agent has sent text. */
  get hasText(): boolean {
    return this.#shown !== '' || [...this.#texts.values()].some((text) => text !== '');
  }

  receive(event: A2AStreamEvent): readonly AgentEvent[] {
    if ('task' in event) return this.#catchUp(event.task);
    if ('message' in event) {
      const { messageId, parts } = event.message;
      return this.#put({ artifactId: messageId, parts });
    }
    if ('artifactUpdate' in event) {
      const { artifact, append = false, lastChunk } = event.artifactUpdate;
      return this.#put(artifact, append, lastChunk);
    }
    const { status } = event.statusUpdate;
    if (status.state !== 'TASK_STATE_WORKING') return [];
    const message = textOf(status.message?.parts ?? []);
    if (message === '') return [];
    this.#count(message.length);
    return [{ type: 'status', message }];
  }

  /** The text of the last status, for an agent that sends its result there and nowhere else. */
  finalText(text: string): readonly AgentEvent[] {
    return text === '' || this.hasText ? [] : [{ type: 'text.delta', id: 'status', delta: text }];
  }

  #catchUp({ artifacts = [] }: A2ATask): readonly AgentEvent[] {
    const texts = artifacts.filter(isText);
    const known = this.#shown || [...this.#texts.values()].join('');
    const complete = texts.map(({ parts }) => textOf(parts)).join('');
    this.#shown = '';
    this.#texts.clear();
    for (const { artifactId, parts } of texts) this.#setText(shortId(artifactId), textOf(parts));
    const others = artifacts
      .filter((artifact) => !isText(artifact))
      .flatMap((artifact) => this.#putArtifact(artifact));
    const id = shortId(texts.at(-1)?.artifactId ?? '');
    return [...this.#textFrom(known, complete, id), ...others];
  }

  #put(artifact: A2AArtifact, append = false, last?: true): readonly AgentEvent[] {
    const artifactId = shortId(artifact.artifactId);
    const known = this.#texts.get(artifactId);
    if (known === undefined && !isText(artifact)) return this.#putArtifact(artifact, append, last);
    const text = textOf(artifact.parts);
    // A new artifact is the last one, so its text continues the text so far.
    if (append || known === undefined) {
      this.#setText(artifactId, `${known ?? ''}${text}`);
      return text === '' ? [] : [{ type: 'text.delta', id: artifactId, delta: text }];
    }
    const before = [...this.#texts.values()].join('');
    this.#setText(artifactId, text);
    return this.#textFrom(before, [...this.#texts.values()].join(''), artifactId);
  }

  /** Counts an event that the limits of a run do not count. */
  #count(chars = 0): void {
    this.#statusChars += EVENT_CHARS + chars;
    if (this.#statusChars > MAX_STATUS_CHARS)
      throw tooLarge(
        `the status messages of the remote agent exceed the limit of a run (${MAX_STATUS_CHARS} characters, ${EVENT_CHARS} for each)`,
      );
  }

  #setText(artifactId: string, text: string): void {
    if (!this.#texts.has(artifactId) && this.#texts.size >= MAX_ARTIFACTS) throw tooManyArtifacts();
    this.#texts.set(artifactId, text);
  }

  /** The events that turn the text `known` into `wanted`. */
  #textFrom(known: string, wanted: string, id: string): readonly AgentEvent[] {
    if (wanted === known) return [];
    if (wanted.startsWith(known))
      return [{ type: 'text.delta', id, delta: wanted.slice(known.length) }];
    this.#count();
    const message = 'the remote agent replaced its text';
    const error = new DuolaneError('interrupted', message).toJSON();
    const replaced: AgentEvent = {
      type: 'retry',
      attempt: ++this.#discards,
      error,
      discard: true,
    };
    // A block that has ended cannot grow, so the new text has a new id.
    const text: AgentEvent = { type: 'text.delta', id: `${id}/${this.#discards}`, delta: wanted };
    return wanted === '' ? [replaced] : [replaced, text];
  }

  #putArtifact(artifact: A2AArtifact, append = false, last?: true): readonly AgentEvent[] {
    const { name, metadata } = artifact;
    const artifactId = shortId(artifact.artifactId);
    if (!this.#artifacts.has(artifactId) && this.#artifacts.size >= MAX_ARTIFACTS)
      throw tooManyArtifacts();
    const parts = artifact.parts.map((part) => decodePart(part, this.#baseUrl));
    // Nothing to append to: the caller was started again, or the agent never sent a beginning.
    const appends = append && this.#artifacts.has(artifactId);
    if (parts.length === 0) this.#count();
    this.#artifacts.add(artifactId);
    return [
      {
        type: 'artifact',
        artifactId,
        parts,
        ...omitUndefined({ name, metadata, last }),
        ...(appends && { append: true }),
      },
    ];
  }
}

const tooManyArtifacts = (): DuolaneError =>
  tooLarge(`the artifacts of the remote agent exceed the limit (${MAX_ARTIFACTS})`);

/** The names under which agents send the text of a run. */
const TEXT_NAMES: ReadonlySet<string> = new Set(['', 'response', 'result', 'text']);
const TEXT_TYPES: ReadonlySet<string> = new Set(['', 'text/plain', 'text/markdown']);

const isText = ({ name = '', parts }: A2AArtifact): boolean =>
  TEXT_NAMES.has(name) &&
  parts.length > 0 &&
  parts.every(({ text, mediaType = '' }) => text !== undefined && TEXT_TYPES.has(mediaType));

/** An id of the remote agent. A long one is replaced, since logs and readers keep ids. */
export const shortId = (id: string): string => (id.length > MAX_ID_CHARS ? nameId(id) : id);

/** The id of the task that an event belongs to; undefined for a message. */
export function taskOf(event: A2AStreamEvent): string | undefined {
  if ('task' in event) return event.task.id;
  if ('statusUpdate' in event) return event.statusUpdate.taskId;
  return 'artifactUpdate' in event ? event.artifactUpdate.taskId : undefined;
}

const WEB: ReadonlySet<string> = new Set(['http:', 'https:']);

/**
 * A part of the remote agent for the caller's log. Links are made absolute. Any other address than
 * one of the web becomes text: a reader on another machine must not open its own files by it, or
 * run a script.
 */
export function decodePart(part: A2APart, baseUrl: string): Part {
  const { text, data, url, raw, mediaType, filename, metadata } = part;
  const common = omitUndefined({ mediaType, metadata });
  if (text !== undefined) return { text, ...common };
  if (raw !== undefined) {
    const bytes = new Uint8Array(Buffer.from(raw, 'base64'));
    return {
      bytes,
      mediaType: mediaType ?? 'application/octet-stream',
      ...omitUndefined({ filename, metadata }),
    };
  }
  if (url !== undefined) {
    const absolute = URL.canParse(url, baseUrl) ? new URL(url, baseUrl) : undefined;
    if (!absolute || !WEB.has(absolute.protocol))
      return { text: url, mediaType: 'text/plain', ...omitUndefined({ metadata }) };
    return { url: absolute.href, ...common, ...omitUndefined({ filename }) };
  }
  return { data, ...common };
}
