import type { Answer, InputRequest } from '../ask.ts';
import { DuolaneError } from '../errors.ts';
import { parseDecision } from '../event/text/parse-decision.ts';
import type { Part } from '../event/types.ts';
import { asObject, isDeep, tryParse, type JsonObject } from '../json.ts';

/** A parsed POST of a front end. */
export interface PostedTurn {
  /** The conversation: a chat, a thread or a session. Undefined starts a new one. */
  readonly context: string | undefined;
  /** A message with a known id is the same turn. Undefined always starts a new turn. */
  readonly messageId: string | undefined;
  readonly parts: readonly Part[];
  /** Possible answers. Front ends also send old results again, which match no open question. */
  readonly given: readonly PostedAnswer[];
  /** The id of the agent's message that contains the answers. */
  readonly within?: string;
  /** The other members of the body, for the agent. */
  readonly metadata: JsonObject;
}

/** A possible answer of a front end. */
export interface PostedAnswer {
  /** The id of the question, or of the call that it is about. */
  readonly id: string;
  /** If undefined, the content decides. */
  readonly action?: Answer['action'];
  readonly content?: unknown;
}

/**
 * Matches posted answers to the open questions. Throws `invalid` if the answer to an approval is
 * neither yes nor no: text that cannot be parsed must not approve anything. The same holds for an
 * answer that names only a call with several open approvals: one yes decides one of them.
 */
export function answersTo(
  pending: readonly InputRequest[],
  given: readonly PostedAnswer[],
): readonly Answer[] {
  // One pass: a run may have a thousand questions, and a front end may post a hundred thousand
  // results.
  const indexes = new Map<string, number>();
  for (const [index, { id }] of given.entries()) if (!indexes.has(id)) indexes.set(id, index);
  const decided = new Set<PostedAnswer>();
  return pending.flatMap((request): Answer[] => {
    const exact = indexes.get(request.id);
    const near = callsOf(request).flatMap((id) => indexes.get(id) ?? []);
    const found = given[exact ?? Math.min(...near)];
    if (!found) return [];
    if (exact === undefined && request.kind === 'approval') {
      if (decided.has(found))
        throw new DuolaneError(
          'invalid',
          `the answer to "${found.id}" fits several approvals; answer each by its own id`,
        );
      decided.add(found);
    }
    return [answer(request, found)];
  });
}

/**
 * The calls that a question may belong to (see `belongsTo`): the one that it names, or, if it names
 * none, its id up to each of its slashes.
 */
function callsOf({ id, callId }: InputRequest): readonly string[] {
  if (callId !== undefined) return [callId];
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
  // Edited arguments without a decision approve; with a decision that cannot be parsed they do not.
  const onlyEdited = approved === undefined && edited !== undefined;
  const decided = action ?? (onlyEdited ? 'accept' : decide(approved ?? given));
  if (decided === undefined)
    throw new DuolaneError(
      'invalid',
      `invalid answer to "${id}": expected {"approved": true} or {"approved": false}`,
    );
  return { id, action: decided, ...(edited !== undefined && { content: edited }) };
}

function decide(approved: unknown): 'accept' | 'decline' | undefined {
  if (typeof approved === 'boolean') return approved ? 'accept' : 'decline';
  return typeof approved === 'string' ? parseDecision(approved) : undefined;
}

/** The value of JSON text, or the text itself: front ends send the results of tools as text. */
const jsonOr = (text: string): unknown => (isDeep(text) ? text : (tryParse(text) ?? text));

/** The value if it is a string that is not empty. */
export const string = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;

/** A member that must be a string. Throws `invalid` if it is missing or empty. */
export function required(body: JsonObject, name: string): string {
  const value = string(body[name]);
  if (value !== undefined) return value;
  throw new DuolaneError('invalid', `missing member "${name}" in the body: expected a string`);
}

/** A file of a front end: its bytes if the URL contains them, else the URL. */
export function postedFilePart(url: string, mediaType?: string, filename?: string): Part {
  const named = filename === undefined ? {} : { filename };
  const inside = bytesIn(url);
  if (inside) return { bytes: inside.bytes, mediaType: mediaType ?? inside.mediaType, ...named };
  return { url, ...(mediaType !== undefined && { mediaType }), ...named };
}

/**
 * The content of a `data:` URL in base64. Uses `indexOf`: a regular expression took quadratic time
 * on a URL without a comma.
 */
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

/** The members without null, and without the empty arrays and objects that clients always send. */
export const nonEmptyFields = (fields: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(fields).filter(
      ([, value]) =>
        value !== undefined &&
        value !== null &&
        !(typeof value === 'object' && Object.keys(value).length === 0),
    ),
  );
