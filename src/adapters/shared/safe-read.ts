import { RETRYABLE, type ErrorCode, type Failure } from '../../errors.ts';
import { asObject, asObjects, asString } from '../../json.ts';

/** The words of a tool result, whose content is a string or blocks. */
export const toolResultText = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : asObjects(content)
        .map((block) => asString(block['text']))
        .join('\n');

export const toFailure = (code: ErrorCode, message: string, status?: number): Failure => ({
  code,
  message,
  retryable: RETRYABLE[code],
  ...(status !== undefined && { status }),
});

/** What a tool threw, or said when it failed, as a failure of its call. */
export function toolFailure(reason: unknown): Failure {
  const message = typeof reason === 'string' ? reason : asString(asObject(reason)['message']);
  return toFailure('tool', message || 'the tool failed');
}

/** JSON as far as it goes: what is no JSON is the text itself. */
export function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    // Text that is not JSON is itself the value.
    return json;
  }
}
