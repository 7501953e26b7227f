import type { Answer } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import type { Part } from '../../event/types.ts';
import { readBodyText } from '../../http/read-body.ts';
import { bodyProblem, isObject, type JsonObject } from '../../json.ts';

/** Problems of a form that an error names; a list of a million wrong items has as many. */
const MAX_PROBLEMS = 20;

/** Throws `invalid`, naming the fields that do not fit the form of the agent. */
export async function checkForm(form: JsonObject, data: unknown): Promise<void> {
  const { compileJsonSchema } = await import('../../mcp/schema/json-schema.ts');
  const checked = await compileJsonSchema(form).check(data);
  if (checked.ok) return;
  const words = checked.problems
    .slice(0, MAX_PROBLEMS)
    .map(({ path, message }) => `${path.join('.') || 'the input'} ${message}`);
  const omitted = checked.problems.length - words.length;
  if (omitted > 0) words.push(`and ${omitted} more`);
  throw new DuolaneError('invalid', `the input does not fit the form: ${words.join('; ')}`);
}

/** What a person sent: words, data, answers. Throws `invalid` when there is nothing of it. */
export function readTurn(body: JsonObject): {
  readonly parts: readonly Part[];
  readonly answers: readonly Answer[];
} {
  const { text, data, answers } = body;
  const parts: Part[] = [];
  if (typeof text === 'string' && text !== '') parts.push({ text });
  if (data !== undefined) parts.push({ data });
  const given: readonly unknown[] = Array.isArray(answers) ? answers : [];
  if (parts.length === 0 && given.length === 0)
    throw new DuolaneError('invalid', 'a turn needs text, data or answers');
  if (!given.every(isAnswer))
    throw new DuolaneError('invalid', 'an answer needs id and action (accept, decline or cancel)');
  return { parts, answers: given };
}

const isAnswer = (value: unknown): value is Answer =>
  isObject(value) &&
  typeof value['id'] === 'string' &&
  typeof value['action'] === 'string' &&
  ['accept', 'decline', 'cancel'].includes(value['action']);

/**
 * Only JSON: a form of another site cannot send that without asking first. Throws `invalid`, and
 * `too_large` as soon as the limit is passed.
 */
export async function readJsonBody(request: Request, maxBytes: number): Promise<JsonObject> {
  if (!/^application\/json\b/i.test(request.headers.get('content-type') ?? '')) {
    throw new DuolaneError('invalid', 'send application/json');
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
    throw new DuolaneError('invalid', 'the body is not JSON', { cause });
  }
  throw new DuolaneError('invalid', 'the body must be a JSON object');
}
