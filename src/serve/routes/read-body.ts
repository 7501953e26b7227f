import type { Answer } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import type { Part } from '../../event/types.ts';
import { readBodyText } from '../../http/read-body.ts';
import { asArray, bodyProblem, isObject, type JsonObject } from '../../json.ts';

/** How many problems of a form an error lists: a list of a million wrong items has as many. */
const MAX_PROBLEMS = 20;

/** Throws `invalid` with the fields that do not match the form of the agent. */
export async function checkForm(form: JsonObject, data: unknown): Promise<void> {
  const { checkOnce } = await import('../../mcp/schema/json-schema.ts');
  const checked = checkOnce(form, data);
  if (checked.ok) return;
  const problems = checked.problems
    .slice(0, MAX_PROBLEMS)
    .map(({ path, message }) => `${path.join('.') || 'the input'} ${message}`);
  const omitted = checked.problems.length - problems.length;
  if (omitted > 0) problems.push(`and ${omitted} more`);
  throw new DuolaneError('invalid', `invalid input for the form: ${problems.join('; ')}`);
}

/** The text, data and answers of a turn. Throws `invalid` if it has none of them. */
export function readTurn(body: JsonObject): {
  readonly parts: readonly Part[];
  readonly answers: readonly Answer[];
} {
  const { text, data, answers } = body;
  const parts: Part[] = [];
  if (typeof text === 'string' && text !== '') parts.push({ text });
  if (data !== undefined) parts.push({ data });
  const given = asArray(answers);
  if (parts.length === 0 && given.length === 0)
    throw new DuolaneError('invalid', 'invalid turn: expected text, data or answers');
  if (!given.every(isAnswer))
    throw new DuolaneError(
      'invalid',
      'invalid answer: expected id and action (accept, decline or cancel)',
    );
  return { parts, answers: given };
}

const isAnswer = (value: unknown): value is Answer =>
  isObject(value) &&
  typeof value['id'] === 'string' &&
  typeof value['action'] === 'string' &&
  ['accept', 'decline', 'cancel'].includes(value['action']);

/**
 * Reads a JSON object. Refuses other content types: a form of another site can send those without a
 * preflight request. Throws `invalid`, and `too_large` as soon as the limit is exceeded.
 */
export async function readJsonBody(request: Request, maxBytes: number): Promise<JsonObject> {
  if (!/^application\/json\b/i.test(request.headers.get('content-type') ?? '')) {
    throw new DuolaneError('invalid', 'invalid content-type: expected application/json');
  }
  const tooLarge = (): DuolaneError =>
    new DuolaneError('too_large', `the body exceeds maxBodyBytes (${maxBytes})`);
  const text = await readBodyText(request, maxBytes, tooLarge);
  const problem = bodyProblem(text);
  if (problem !== undefined) throw new DuolaneError('invalid', problem);
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch (cause) {
    throw new DuolaneError('invalid', 'invalid body: expected JSON', { cause });
  }
  throw new DuolaneError('invalid', 'invalid body: expected a JSON object');
}
