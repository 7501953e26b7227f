import { randomUUID } from 'node:crypto';
import type { OpenCall } from '../event/types.ts';
import type { SessionStoreEntry } from '../host/index.ts';
import { asObject, asObjects, asString, type JsonObject } from '../json.ts';
import type { ToolResult } from '../mcp/types.ts';

/** A call of the model that has no result in the transcript. */
export interface TranscriptCall extends OpenCall {
  /** The entry that has the call. */
  readonly entry: SessionStoreEntry;
}

/** How far a turn has come, by its transcript. */
export interface TranscriptProgress {
  /** The text of the model since the prompt. */
  readonly text: string;
  /** The calls of the last model message that have no result. */
  readonly open: readonly TranscriptCall[];
  /** The results since the prompt, by call. */
  readonly results: ReadonlyMap<string, JsonObject>;
  /** What the host got of these results from the CLI, if that was more than their content. */
  readonly outputs: ReadonlyMap<string, unknown>;
  /**
   * The model has ended the turn: its last message has no call, or has given the structured output.
   */
  readonly isEnded: boolean;
  /** The text of the message that ended the turn. */
  readonly lastText: string;
  /** The structured output that ended the turn. */
  readonly output?: { readonly value: unknown };
}

/** The tool through which the model gives its structured output, in our CLI and the vendor's. */
export const OUTPUT_TOOL = 'StructuredOutput';

/** What the options of a session say about the end of its turns. */
export interface TurnEnds {
  /** A turn ends with a structured output only: the CLI does not accept a message without it. */
  readonly needsOutput: boolean;
}

const isMain = ({ type, isSidechain }: SessionStoreEntry): boolean =>
  (type === 'user' || type === 'assistant') && isSidechain !== true;

const messageOf = ({ message }: SessionStoreEntry): JsonObject => asObject(message);

const blocksOf = (entry: SessionStoreEntry): readonly JsonObject[] =>
  asObjects(messageOf(entry)['content']);

const ofType =
  (type: string) =>
  (block: JsonObject): boolean =>
    block['type'] === type;

const textOf = (entries: readonly SessionStoreEntry[]): string =>
  entries
    .flatMap((entry) => blocksOf(entry).filter(ofType('text')))
    .map((block) => asString(block['text']))
    .join('');

/** Reads how far the turn of a prompt has come; undefined if the transcript lacks the prompt. */
export function readProgress(
  entries: readonly SessionStoreEntry[],
  prompt: string,
  { needsOutput }: TurnEnds,
): TranscriptProgress | undefined {
  const at = entries.findLastIndex(({ uuid }) => uuid === prompt);
  if (at < 0) return undefined;
  const since = entries.slice(at + 1).filter(isMain);
  const answers = since.filter((entry) => entry.type === 'assistant' && !isSynthetic(entry));
  const results = new Map<string, JsonObject>();
  const outputs = new Map<string, unknown>();
  const accepted = new Map<string, unknown>();
  for (const entry of since)
    for (const block of blocksOf(entry).filter(ofType('tool_result'))) {
      const callId = asString(block['tool_use_id']);
      results.set(callId, block);
      const output = entry['structured_output'] ?? entry['toolUseResult'];
      if (output !== undefined) outputs.set(callId, output);
      // Our CLI writes the output that it accepted, which a hook may have changed.
      if ('structured_output' in entry) accepted.set(callId, entry['structured_output']);
    }
  const calls = answers.flatMap((entry) =>
    blocksOf(entry)
      .filter(ofType('tool_use'))
      .map((block) => ({
        entry,
        callId: asString(block['id']),
        name: asString(block['name']),
        args: block['input'],
      })),
  );
  const last = answers.at(-1);
  const message = answers.filter((entry) => last && sameMessage(entry, last));
  const open = calls.filter(({ callId }) => !results.has(callId));
  const given = calls.find(
    ({ entry, callId, name }) =>
      name === OUTPUT_TOOL && message.includes(entry) && isSuccess(results.get(callId)),
  );
  const output = given && {
    value: accepted.has(given.callId) ? accepted.get(given.callId) : given.args,
  };
  const isWithoutCall = since.at(-1)?.type === 'assistant' && !message.some(hasCall);
  return {
    text: textOf(answers),
    open,
    results,
    outputs,
    isEnded: output ? open.length === 0 : isWithoutCall && !needsOutput,
    lastText: textOf(message),
    ...(output && { output }),
  };
}

const isSuccess = (result: JsonObject | undefined): boolean =>
  result !== undefined && result['is_error'] !== true;

/** A message that the CLI wrote itself, as for a failed model call. */
const isSynthetic = (entry: SessionStoreEntry): boolean =>
  entry['isApiErrorMessage'] === true || messageOf(entry)['model'] === '<synthetic>';

const sameMessage = (a: SessionStoreEntry, b: SessionStoreEntry): boolean =>
  messageOf(a)['id'] === messageOf(b)['id'];

const hasCall = (entry: SessionStoreEntry): boolean => blocksOf(entry).some(ofType('tool_use'));

interface IncompleteOptions extends TurnEnds {
  readonly isNotBegun: (call: Pick<OpenCall, 'callId' | 'name'>) => boolean;
}

/**
 * How many entries at the end belong to a model message that is incomplete: without a call, and
 * without its text. The model must write such a message again. With `needsOutput` that is also true
 * for a message that has nothing but its text, or that has only given a structured output which the
 * CLI has not accepted yet: a CLI cannot continue there, and such a call has no effects.
 * `isNotBegun` says of a call that its message may be written again. It is if all calls allow it.
 */
export function countIncomplete(
  entries: readonly SessionStoreEntry[],
  { needsOutput, isNotBegun }: IncompleteOptions,
): number {
  const last = entries.at(-1);
  if (last?.type !== 'assistant' || !isMain(last)) return 0;
  const from = entries.findLastIndex((entry) => !isMain(entry) || !sameMessage(entry, last)) + 1;
  const message = entries.slice(from);
  const calls = message
    .flatMap((entry) => blocksOf(entry).filter(ofType('tool_use')))
    .map(({ id, name }) => ({ callId: asString(id), name: asString(name) }));
  if (needsOutput && calls.every(({ name }) => name === OUTPUT_TOOL)) return message.length;
  if (calls.length > 0) return calls.every(isNotBegun) ? message.length : 0;
  const isText = blocksOf(last).at(-1)?.['type'] === 'text';
  const lacksCall = messageOf(last)['stop_reason'] === 'tool_use';
  return isText && !lacksCall ? 0 : message.length;
}

/**
 * The entries before a prompt that the model has not answered; all of them if it has. None if no
 * message is left: a CLI cannot resume such a session.
 */
export function withoutUnanswered(
  entries: readonly SessionStoreEntry[],
  prompt: string,
): readonly SessionStoreEntry[] {
  const at = entries.findLastIndex(({ uuid }) => uuid === prompt);
  if (at < 0 || entries.slice(at + 1).some(isMain)) return entries;
  const before = entries.slice(0, at);
  return before.some(isMain) ? before : [];
}

/** The calls whose results a message has. */
export const resultsIn = ({ message }: JsonObject): readonly string[] =>
  asObjects(asObject(message)['content'])
    .filter(({ type }) => type === 'tool_result')
    .map((block) => asString(block['tool_use_id']));

/** Splits entries at the first one of the message that is arriving; without an id, none waits. */
export function splitArriving(
  entries: readonly SessionStoreEntry[],
  arriving: string | undefined,
  allWait: boolean,
): { readonly ready: readonly SessionStoreEntry[]; readonly waits: readonly SessionStoreEntry[] } {
  const isArriving = (entry: SessionStoreEntry): boolean =>
    arriving !== undefined && messageOf(entry)['id'] === arriving;
  const found = allWait ? 0 : entries.findIndex(isArriving);
  const at = found < 0 ? entries.length : found;
  return { ready: entries.slice(0, at), waits: entries.slice(at) };
}

/** The entry that a CLI writes for the result of a call. */
export function resultEntry({ entry, callId }: TranscriptCall, result: ToolResult): JsonObject {
  const { content, isError } = result;
  // As the vendor's CLI writes them, down to the order: it sends them to the model as they are.
  const block = isError
    ? { type: 'tool_result', content: errorContent(content), is_error: true, tool_use_id: callId }
    : { tool_use_id: callId, type: 'tool_result', content };
  return {
    ...nextTo(entry),
    type: 'user',
    message: { role: 'user', content: [block] },
    uuid: randomUUID(),
    timestamp: new Date().toISOString(),
    toolUseResult: content,
    sourceToolAssistantUUID: entry.uuid,
  };
}

/** The vendor's CLI makes one text of an error. */
const errorContent = (content: ToolResult['content']): unknown =>
  content.every(({ type }) => type === 'text')
    ? content.map((part) => asString(asObject(part)['text'])).join('\n\n')
    : content;

const SHARED = [
  'isSidechain',
  'userType',
  'entrypoint',
  'cwd',
  'sessionId',
  'version',
  'gitBranch',
];

/** The members that an entry shares with the one that it follows. */
export const nextTo = (entry: SessionStoreEntry): JsonObject => ({
  parentUuid: entry.uuid ?? null,
  ...Object.fromEntries(
    SHARED.filter((name) => entry[name] !== undefined).map((name) => [name, entry[name]]),
  ),
});
