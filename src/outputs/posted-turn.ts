import type { Answer, InputRequest } from '../ask.ts';
import { DuolaneError } from '../errors.ts';
import { parseDecision } from '../event/text/parse-decision.ts';
import type { Part } from '../event/types.ts';
import { asObject, isDeep, type JsonObject } from '../json.ts';

/** What a front end posted, in our words. */
export interface PostedTurn {
  /** The conversation: a chat, a thread, a session. Undefined begins one. */
  readonly context: string | undefined;
  /** Posted again it is the same turn. Undefined: a turn of its own, whatever was posted before. */
  readonly messageId: string | undefined;
  readonly parts: readonly Part[];
  /** What may answer a question; front ends send old results along, which answer nothing. */
  readonly given: readonly PostedAnswer[];
  /** Our own message that the answers stand in. */
  readonly within?: string;
  /** What else was posted, for the agent. */
  readonly metadata: JsonObject;
}

export interface PostedAnswer {
  /** Of the question, or of the call that it is about. */
  readonly id: string;
  /** Left to the content if not said. */
  readonly action?: Answer['action'];
  readonly content?: unknown;
}

/**
 * The pending questions that are answered by what was given, each with its answer. Throws `invalid` for
 * an approval that is given neither a yes nor a no: words that are not understood approve nothing.
 */
export function answersTo(
  pending: readonly InputRequest[],
  given: readonly PostedAnswer[],
): readonly Answer[] {
  // Read once: a run may have a thousand questions, and a front end may post a hundred thousand results.
  const places = new Map<string, number>();
  for (const [place, { id }] of given.entries()) if (!places.has(id)) places.set(id, place);
  return pending.flatMap((request): Answer[] => {
    const exact = places.get(request.id);
    const near = [request.callId, ...callsOf(request.id)].flatMap(
      (id) => (id === undefined ? undefined : places.get(id)) ?? [],
    );
    const found = given[exact ?? Math.min(...near)];
    return found ? [answer(request, found)] : [];
  });
}

/** The calls that a question may belong to (see `belongsTo`): its id up to each of its slashes. */
function callsOf(id: string): readonly string[] {
  const calls: string[] = [];
  for (let at = id.indexOf('/'); at !== -1; at = id.indexOf('/', at + 1))
    calls.push(id.slice(0, at));
  return calls;
}

function answer({ id, kind }: InputRequest, { action, content }: PostedAnswer): Answer {
  if (kind !== 'approval')
    return { id, action: action ?? 'accept', ...(content !== undefined && { content }) };
  const given = typeof content === 'string' ? jsonOr(content) : content;
  const { approved, editedArgs: edited } = asObject(given);
  // Edited arguments alone approve; beside a decision that is not understood they do not.
  const onlyEdited = approved === undefined && edited !== undefined;
  const decided = action ?? (onlyEdited ? 'accept' : decide(approved ?? given));
  if (decided === undefined)
    throw new DuolaneError(
      'invalid',
      `${id} waits for a decision, and what was given is neither a yes nor a no: post {"approved": true} or {"approved": false}`,
    );
  return { id, action: decided, ...(edited !== undefined && { content: edited }) };
}

function decide(said: unknown): 'accept' | 'decline' | undefined {
  if (typeof said === 'boolean') return said ? 'accept' : 'decline';
  return typeof said === 'string' ? parseDecision(said) : undefined;
}

/** Results of tools travel as text. */
function jsonOr(text: string): unknown {
  if (isDeep(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    // Text that is not JSON is itself the value.
    return text;
  }
}

export const string = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;

export function required(body: JsonObject, name: string): string {
  const value = string(body[name]);
  if (value !== undefined) return value;
  throw new DuolaneError('invalid', `the body needs ${name}, a string`);
}

/** A file that a front end sent: bytes where the URL holds them. */
export function postedFilePart(url: string, mediaType?: string, filename?: string): Part {
  const named = filename === undefined ? {} : { filename };
  const inside = bytesIn(url);
  if (inside) return { bytes: inside.bytes, mediaType: mediaType ?? inside.mediaType, ...named };
  return { url, ...(mediaType !== undefined && { mediaType }), ...named };
}

/** What a `data:` URL in base64 holds. By `indexOf`: a pattern took quadratic time on a URL without a comma. */
function bytesIn(
  url: string,
): { readonly bytes: Uint8Array; readonly mediaType: string } | undefined {
  const comma = url.startsWith('data:') ? url.indexOf(',') : -1;
  if (comma === -1) return undefined;
  const head = url.slice('data:'.length, comma);
  if (!head.endsWith(';base64')) return undefined;
  const [type] = head.split(';', 1);
  return {
    bytes: new Uint8Array(Buffer.from(url.slice(comma + 1), 'base64')),
    mediaType: type || 'application/octet-stream',
  };
}

/** The members that say something: not the empty lists and objects that clients send along. */
export const nonEmptyFields = (fields: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(fields).filter(
      ([, value]) =>
        value !== undefined &&
        value !== null &&
        !(typeof value === 'object' && Object.keys(value).length === 0),
    ),
  );
