import { realPath } from '../../permissions/path-rules.ts';
import { asString, type JsonObject } from '../../../json.ts';
import {
  type AgentTool,
  failedOutcome,
  success,
  type ToolOutcome,
  type ToolRun,
} from '../types.ts';
import { openToEdit, openToRead, openToWrite, readTextFile, writeText } from './open-file.ts';
import { locate, pathFacts, type Workspace } from './workspace.ts';

const MAX_FILE_BYTES = 10 * 1024 * 1024;
const MAX_LINES = 2000;
const MAX_LINE_CHARS = 2000;

const path = {
  type: 'string',
  description: 'Path of the file; a relative path starts at the working directory',
};

/**
 * The real path that the permission was given for. A link that changed since then is not followed.
 */
const permittedPath = (workspace: Workspace, input: JsonObject, { path: real }: ToolRun): string =>
  real ?? realPath(locate(workspace, asString(input['file_path'])));

/**
 * The result of a call without its text, or with another value. Models forget it, and send JSON as
 * an object; taken for an empty text, it would empty the file.
 */
const noText = (name: string): ToolOutcome =>
  failedOutcome(`invalid ${name}: expected a text; the file is unchanged`);

/** Reads a part of a text file, with line numbers. */
export const readTool = (workspace: Workspace): AgentTool => ({
  spec: {
    name: 'Read',
    description: `Reads a text file, with line numbers. Returns at most ${MAX_LINES} lines; use offset and limit for more.`,
    input_schema: {
      type: 'object',
      properties: {
        file_path: path,
        offset: { type: 'integer', minimum: 1, description: 'Number of the first line' },
        limit: { type: 'integer', minimum: 1, description: 'Number of lines' },
      },
      required: ['file_path'],
    },
  },
  readOnly: true,
  facts: (input) => pathFacts(workspace, asString(input['file_path']), false),
  async call(input, run) {
    const file = permittedPath(workspace, input, run);
    await using handle = await openToRead(file);
    const text = await readTextFile(handle, {
      path: file,
      maxBytes: MAX_FILE_BYTES,
      signal: run.signal,
    });
    const { offset, limit } = input;
    const from = typeof offset === 'number' ? offset : 1;
    const count = Math.min(typeof limit === 'number' ? limit : MAX_LINES, MAX_LINES);
    const lines = text.split('\n');
    const shown = lines
      .slice(from - 1, from - 1 + count)
      .map((line, i) => `${String(from + i).padStart(6)}\t${line.slice(0, MAX_LINE_CHARS)}`);
    const rest = lines.length - (from - 1) - shown.length;
    const more = rest > 0 ? `\n(${rest} more lines)` : '';
    return success(shown.join('\n') + more, {
      filePath: file,
      numLines: shown.length,
      totalLines: lines.length,
    });
  },
});

export const writeTool = (workspace: Workspace): AgentTool => ({
  spec: {
    name: 'Write',
    description: 'Writes a text file. Replaces an existing file and creates missing folders.',
    input_schema: {
      type: 'object',
      properties: { file_path: path, content: { type: 'string' } },
      required: ['file_path', 'content'],
    },
  },
  readOnly: false,
  facts: (input) => ({
    ...pathFacts(workspace, asString(input['file_path']), true),
    pathsAs: ['Edit'],
  }),
  async call(input, run) {
    const file = permittedPath(workspace, input, run);
    const { content } = input;
    if (typeof content !== 'string') return noText('content');
    run.signal.throwIfAborted();
    await using handle = await openToWrite(file);
    await writeText(handle, content);
    return success(`Wrote ${Buffer.byteLength(content)} bytes to ${file}`, { filePath: file });
  },
});

export const editTool = (workspace: Workspace): AgentTool => ({
  spec: {
    name: 'Edit',
    description:
      'Replaces a text in a file. old_string must occur exactly once, unless replace_all is true.',
    input_schema: {
      type: 'object',
      properties: {
        file_path: path,
        old_string: { type: 'string' },
        new_string: { type: 'string' },
        replace_all: { type: 'boolean' },
      },
      required: ['file_path', 'old_string', 'new_string'],
    },
  },
  readOnly: false,
  // Rules of Read apply, too: whether a text occurs in a file reveals its content.
  facts: (input) => ({
    ...pathFacts(workspace, asString(input['file_path']), true),
    pathsAs: ['Write', 'Read'],
  }),
  async call(input, run) {
    const file = permittedPath(workspace, input, run);
    const { old_string: before, new_string: after } = input;
    if (typeof before !== 'string') return noText('old_string');
    if (typeof after !== 'string') return noText('new_string');
    if (before === '')
      return failedOutcome('old_string must not be empty; use Write for a new file');
    await using handle = await openToEdit(file);
    const text = await readTextFile(handle, {
      path: file,
      maxBytes: MAX_FILE_BYTES,
      signal: run.signal,
      exact: true,
    });
    const count = text.split(before).length - 1;
    if (count === 0) return failedOutcome(`old_string does not occur in ${file}`);
    if (count > 1 && input['replace_all'] !== true) {
      return failedOutcome(
        `old_string occurs ${count} times in ${file}; make it longer, or set replace_all`,
      );
    }
    run.signal.throwIfAborted();
    await writeText(handle, text.split(before).join(after));
    return success(`Replaced ${count} occurrence(s) in ${file}`, { filePath: file, count });
  },
});
