import { RETRYABLE, type ErrorCode, type Failure } from '../../errors.ts';
import { asObject, asObjects, asString } from '../../json.ts';

/** The text of a tool result, whose content is a string or blocks. */
export const toolResultText = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : asObjects(content)
        .map((block) => asString(block['text']))
        .join('\n');

/** A failure with the default `retryable` of its code. */
export const toFailure = (code: ErrorCode, message: string, status?: number): Failure => ({
  code,
  message,
  retryable: RETRYABLE[code],
  ...(status !== undefined && { status }),
});

/** The failure of a call, from the error that its tool threw or from its error text. */
export function toolFailure(reason: unknown): Failure {
  const message = typeof reason === 'string' ? reason : asString(asObject(reason)['message']);
  return toFailure('tool', message || 'the tool failed');
}

/** The value of JSON text, or the text itself if it is not JSON. */
export function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    // Text that is not JSON is itself the value.
    return json;
  }
}
