import { RETRYABLE, type ErrorCode, type Failure } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';

/** Members of what a framework or a CLI gave us, read without trust: what is not there is empty. */
export const text = (value: unknown): string => (typeof value === 'string' ? value : '');
export const number = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined;
export const object = (value: unknown): JsonObject => (isObject(value) ? value : {});
export const list = (value: unknown): readonly JsonObject[] =>
  Array.isArray(value) ? value.filter(isObject) : [];

/** The words of a tool result, whose content is a string or blocks. */
export const toolResultText = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : list(content)
        .map((block) => text(block['text']))
        .join('\n');

export const toFailure = (code: ErrorCode, message: string, status?: number): Failure => ({
  code,
  message,
  retryable: RETRYABLE[code],
  ...(status !== undefined && { status }),
});

/** What a tool threw, or said when it failed, as a failure of its call. */
export function toolFailure(reason: unknown): Failure {
  const message = typeof reason === 'string' ? reason : text(object(reason)['message']);
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

/** An object without the members that are undefined. */
export function defined<T extends object>(fields: {
  readonly [K in keyof T]: T[K] | undefined;
}): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}
