import { DuolaneError } from '../../errors.ts';
import { asObject, asString, isObject, type JsonObject } from '../../json.ts';
import type { Block } from '../models/types.ts';
import type { Priority, Prompt } from '../session/prompt-queue.ts';

/** Parses a `user` line. Throws `invalid` if it has no message of the role `user`. */
export function readPrompt(frame: JsonObject): Prompt {
  const { role, content } = asObject(frame['message']);
  if (role !== 'user' || !(typeof content === 'string' || Array.isArray(content))) {
    throw new DuolaneError(
      'invalid',
      'the host sent a user line without a message: expected {role: "user", content: text or blocks}',
    );
  }
  const priority = asString(frame['priority'], 'next');
  return {
    uuid: asString(frame['uuid']) || undefined,
    content:
      typeof content === 'string' ? content : (content.filter(isObject) as unknown as Block[]),
    priority: isPriority(priority) ? priority : 'next',
    query: frame['shouldQuery'] !== false,
  };
}

const isPriority = (value: string): value is Priority =>
  value === 'now' || value === 'next' || value === 'later';
