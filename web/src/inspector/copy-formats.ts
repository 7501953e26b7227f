import type { Part, Snapshot } from '../../../src/event/types.ts';
import type { TaskView } from '../state/task-view.ts';

/** Quotes a text for a POSIX shell, so that no character of it has a meaning. */
export const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** The command that sends the first message of a task again, over A2A 1.0. */
export function curlText({ agent, turns }: Snapshot, origin: string): string {
  const parts = (turns[0]?.parts ?? []).map(a2aPart);
  const message = { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts };
  const body = {
    jsonrpc: '2.0',
    id: 1,
    method: 'SendStreamingMessage',
    params: { message },
  };
  return [
    `curl -N ${shellQuote(`${origin}/a2a/${encodeURIComponent(agent)}`)}`,
    `-H 'content-type: application/json'`,
    `-H 'a2a-version: 1.0'`,
    `-d ${shellQuote(JSON.stringify(body))}`,
  ].join(' \\\n  ');
}

function a2aPart(part: Part): object {
  if ('text' in part) return { text: part.text };
  if ('data' in part) return { data: part.data };
  if ('url' in part) return { url: part.url, ...(part.filename && { filename: part.filename }) };
  return { raw: base64Text(part.bytes), mediaType: part.mediaType };
}

function base64Text(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** How much of a name a test case gets from the message. */
const NAME_CHARS = 60;

/**
 * A run as a case for `duolane eval`: the same message and answers, and what it did as what is
 * expected.
 */
export function evalCaseText(view: TaskView): string {
  const { snapshot, output } = view;
  const parts = snapshot?.turns[0]?.parts ?? [];
  const [first] = parts;
  const input = parts.length === 1 && first && 'text' in first ? first.text : parts;
  const answers = (snapshot?.turns ?? []).flatMap(
    (turn) => turn.answers?.map(({ action, content }) => ({ action, content })) ?? [],
  );
  const name = (typeof input === 'string' ? input : JSON.stringify(input)).slice(0, NAME_CHARS);
  const isOver = view.contract.over;
  const tools = view.rows.flatMap(({ kind, raw }) =>
    kind === 'call' ? [(raw as { readonly name: string }).name] : [],
  );
  const test = {
    name: name.replaceAll(/\s+/g, ' '),
    input,
    ...(answers.length > 0 && { answers }),
    expect: {
      ...(isOver && { outcome: snapshot?.state }),
      ...(tools.length > 0 && { tools }),
      ...(output !== undefined && { output }),
    },
  };
  return `${JSON.stringify([test], null, 2)}\n`;
}
