import { isObject, type JsonObject } from './json.ts';

/**
 * A question to a person. `id` must be the same when the agent or tool runs again, because the
 * answer is found by it: use `<callId>/<key>` in a tool and `<messageId>/<key>` in an agent.
 */
export interface InputRequest {
  readonly id: string;
  readonly kind: 'approval' | 'question' | 'auth';
  readonly message?: string;
  /** The tool call that waits for the answer. */
  readonly callId?: string;
  /** JSON Schema of the answer's content. */
  readonly schema?: JsonObject;
  /** What the person decides about, such as the arguments to approve. */
  readonly data?: unknown;
}

/**
 * A person's reply, with the actions of MCP elicitation. To approve with changes, use `accept` and
 * the changed arguments as content.
 */
export interface Answer {
  readonly id: string;
  readonly action: 'accept' | 'decline' | 'cancel';
  readonly content?: unknown;
}

/** The largest number of answers in one turn. A run has no more open questions than this. */
export const MAX_ANSWERS = 1000;

/**
 * Asks a person and waits for the answer. If the answer is known, it resolves immediately.
 *
 * Otherwise it waits without a timeout, or rejects with `suspended`. Do not catch `suspended`: the
 * agent or tool is called again later, and the same question then resolves immediately. Code before
 * a question may therefore run twice. An answer belongs to its call (or run) and is discarded when
 * that ends.
 *
 * @example
 * ```ts
 * const answer = await context.ask({ id: `${turn.messageId}/deploy`, kind: 'approval' });
 * if (answer.action !== 'accept') return;
 * ```
 */
export type Ask = (
  request: InputRequest,
  options?: { readonly signal?: AbortSignal },
) => Promise<Answer>;

/**
 * Maps an MCP elicitation to the kind of question. A form without fields can only be accepted or
 * declined, so it is an approval: free text that is not a clear yes must not accept it.
 */
export function elicitationKind(mode: unknown, schema: unknown): InputRequest['kind'] {
  if (mode === 'url') return 'auth';
  const properties = isObject(schema) ? schema['properties'] : undefined;
  return isObject(properties) && Object.keys(properties).length > 0 ? 'question' : 'approval';
}

/** The arguments of a call that a person approved. */
export interface ApprovedArgs {
  readonly args: unknown;
  /** The person changed them. */
  readonly changed: boolean;
}

/**
 * Reads the arguments from the content of an accepted approval. `data` is the data of the question,
 * `member` its member with the arguments. Front ends send changed arguments alone; the page lets
 * the person edit `data`, and sends all of it. Undefined: the content changes something else, such
 * as the name of the tool, so it approves nothing.
 */
export function approvedArgs(
  content: unknown,
  data: JsonObject,
  member: string,
): ApprovedArgs | undefined {
  const args = data[member];
  if (content === undefined || content === null || typeof content === 'string')
    return { args, changed: false };
  if (content === true) return { args, changed: false };
  if (!isObject(content)) return undefined;
  const { [member]: given, ...others } = content;
  const { [member]: _, ...known } = data;
  const isSame = isEqual(others, known);
  if (isSame || (hasMembersOf(content, data) && !hasMembersOf(args, data)))
    return isSame && given !== undefined
      ? { args: given, changed: !isEqual(given, args) }
      : undefined;
  return { args: content, changed: !isEqual(content, args) };
}

const hasMembersOf = (value: unknown, data: JsonObject): boolean =>
  isObject(value) && isEqual(Object.keys(value).toSorted(), Object.keys(data).toSorted());

/** Whether two values are equal as JSON, which is how the log stores them. */
function isEqual(one: unknown, other: unknown): boolean {
  return canonical(one) === canonical(other);
}

const canonical = (value: unknown): string | undefined =>
  JSON.stringify(value, (_, each: unknown) =>
    isObject(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );

/** An answer whose call has closed, and the question that the person saw. */
export interface SpentAnswer {
  readonly request: InputRequest;
  readonly answer: Answer;
}
