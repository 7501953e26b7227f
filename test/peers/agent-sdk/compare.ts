import { isDeepStrictEqual } from 'node:util';
import type { JsonObject } from '../../../src/json.ts';
import type { Recording } from './run-case.ts';

/** One difference between the two recordings of a case. */
export interface Difference {
  readonly where: string;
  readonly official: unknown;
  readonly ours: unknown;
}

/** Variables that differ for a reason that the guide states. */
const OWN_ENV = ['CLAUDE_CODE_STREAM_CLOSE_TIMEOUT', 'CLAUDE_AGENT_SDK_VERSION'];

const without = (value: JsonObject, names: readonly string[]): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name)));

/** The parts of a recording that both SDKs must agree on. */
function comparable(recording: Recording): JsonObject {
  return {
    started: recording.started,
    argv: recording.argv,
    env: without(recording.env, OWN_ENV),
    initialize: recording.initialize,
    requests: recording.requests,
    // The host gives each message a uuid, so that it can follow its turn.
    users: recording.users.map((user) => without(user, ['uuid'])),
    responses: recording.responses,
    messages: recording.messages,
    seen: recording.seen,
    error: recording.error,
  };
}

/** The members in which two recordings differ, each by its path. */
export const compareRecordings = (official: Recording, ours: Recording): Difference[] =>
  differencesOf(comparable(official), comparable(ours));

/** The members in which two values differ, each by its path. */
export function differencesOf(official: unknown, ours: unknown, where = ''): Difference[] {
  if (isDeepStrictEqual(official, ours)) return [];
  const names = namesOf(official);
  if (!names || !namesOf(ours) || lengthOf(official) !== lengthOf(ours))
    return [{ where, official, ours }];
  const left = official as Readonly<Record<string, unknown>>;
  const right = ours as Readonly<Record<string, unknown>>;
  return [...new Set([...names, ...Object.keys(right)])].flatMap((name) =>
    differencesOf(left[name], right[name], where === '' ? name : `${where}.${name}`),
  );
}

const namesOf = (value: unknown): string[] | undefined =>
  typeof value === 'object' && value !== null ? Object.keys(value) : undefined;

const lengthOf = (value: unknown): number | undefined =>
  Array.isArray(value) ? value.length : undefined;
