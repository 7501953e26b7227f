import { resolve } from 'node:path';
import { asString, type JsonObject } from '../../json.ts';

const KINDS: Readonly<Record<string, string>> = {
  Read: 'read',
  Write: 'edit',
  Edit: 'edit',
  Glob: 'search',
  Grep: 'search',
  Bash: 'execute',
};

/** The largest title of a call; an editor shows it in one line. */
const MAX_TITLE = 200;

/** A tool call as an editor shows it: title, kind, the files that it touches, and its changes. */
export function describeToolCall(
  toolCallId: string,
  name: string,
  rawInput: JsonObject,
  cwd: string,
): JsonObject {
  const given = asString(rawInput['file_path']) || asString(rawInput['path']);
  const path = given === '' ? undefined : resolve(cwd, given);
  const subject = asString(rawInput['command']) || given || asString(rawInput['pattern']);
  return {
    toolCallId,
    name,
    title: (subject === '' ? name : `${name} ${subject}`).slice(0, MAX_TITLE),
    kind: KINDS[name] ?? 'other',
    rawInput,
    ...(path ? { locations: [{ path }], content: changes(name, path, rawInput) } : {}),
  };
}

/** The changes of a call to a file, as diffs. */
function changes(name: string, path: string, input: JsonObject): readonly JsonObject[] {
  if (name === 'Write')
    return [{ type: 'diff', path, oldText: null, newText: asString(input['content']) }];
  if (name !== 'Edit') return [];
  const [oldText, newText] = [asString(input['old_string']), asString(input['new_string'])];
  return [{ type: 'diff', path, oldText, newText }];
}
