import { isObject, type JsonObject } from './json.ts';

/**
 * A question to a person. `id` must come out equal when the asker runs again: `<callId>/<key>` in
 * a tool, `<messageId>/<key>` in an agent.
 */
export interface InputRequest {
  readonly id: string;
  readonly kind: 'approval' | 'question' | 'auth';
  readonly message?: string;
  /** The tool call that waits for the answer. */
  readonly callId?: string;
  /** JSON Schema of the answer's content. */
  readonly schema?: JsonObject;
  /** What is to be decided about, such as the arguments to approve. */
  readonly data?: unknown;
}

/** In MCP's elicitation words. An edited approval is `accept` with the new arguments as content. */
export interface Answer {
  readonly id: string;
  readonly action: 'accept' | 'decline' | 'cancel';
  readonly content?: unknown;
}

/** Answers of one turn; a run has no more open questions than this. */
export const MAX_ANSWERS = 1000;

/**
 * Resolves at once if the answer is known. Otherwise it waits, without any timer of ours, or
 * rejects with `suspended`: let that pass; you are called again, and this ask then resolves at
 * once. So what stands before an ask may run twice. An answer belongs to its call (or run) and is
 * spent when that closes.
 */
export type Ask = (
  request: InputRequest,
  options?: { readonly signal?: AbortSignal },
) => Promise<Answer>;

/**
 * What MCP's elicitation asks of a person. One whose form has no fields can only be accepted or
 * declined: it is a decision, so words that are no plain yes must not accept it.
 */
export function elicitationKind(mode: unknown, schema: unknown): InputRequest['kind'] {
  if (mode === 'url') return 'auth';
  const properties = isObject(schema) ? schema['properties'] : undefined;
  return isObject(properties) && Object.keys(properties).length > 0 ? 'question' : 'approval';
}
