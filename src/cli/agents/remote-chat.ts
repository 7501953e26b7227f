import {
  connectA2A,
  type A2AArtifact,
  type A2AClient,
  type A2APart,
  type A2AStream,
} from '../../a2a/index.ts';
import { INTERRUPTED, TERMINAL, type A2AState } from '../../a2a/protocol/model.ts';
import type { Answer, InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import type { Outcome, Part } from '../../event/types.ts';
import { isObject } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
import type { AgentChat, SayOptions } from './local-chat.ts';
import type { PrintableEvent } from '../terminal/entry-printer.ts';

export interface RemoteOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Told once when a connection has broken, before it is made again. */
  readonly onLost: () => void;
}

/** With an agent behind any A2A server. A connection that breaks is made again by itself. */
export async function openRemoteChat(
  url: string,
  { headers, signal, onLost }: RemoteOptions,
): Promise<AgentChat> {
  const client = await connectA2A(url, { headers, signal });
  const { name } = client.card;
  let contextId: string | undefined;
  return {
    name: typeof name === 'string' ? name : url,
    async *say(parts, options) {
      for (let turn: Turn | undefined = { parts: parts.map(encodePart) }; turn;) {
        const stream: A2AStream = client.stream(turn.parts, {
          onDisconnect: onLost,
          ...(contextId !== undefined && { contextId }),
          ...(turn.taskId !== undefined && { taskId: turn.taskId }),
        });
        yield* follow(client, stream, options);
        contextId = stream.task?.contextId ?? contextId;
        turn = await answered(stream, options);
      }
    },
    async [Symbol.asyncDispose]() {},
  };
}

interface Turn {
  readonly parts: readonly A2APart[];
  readonly taskId?: string;
}

/** What the stream says, as far as it is new: a server that cannot resume says all of it again. */
async function* follow(
  client: A2AClient,
  stream: A2AStream,
  { signal }: SayOptions,
): AsyncGenerator<PrintableEvent, void, undefined> {
  const cancel = (): void => {
    const task = stream.taskId;
    if (task === undefined) return stream.disconnect();
    void client.cancel(task).catch(() => stream.disconnect()); // it had ended, or cannot be cancelled
  };
  const unlisten = onAbort(signal, cancel);
  const said = new Map<string, number>();
  try {
    for await (const event of stream) {
      const at = Date.now();
      if ('message' in event) {
        const delta = wordsOf(event.message.parts);
        yield { type: 'text.delta', id: 'message', delta, at };
      } else if ('statusUpdate' in event) {
        const { state, message } = event.statusUpdate.status;
        yield* statusEvents(state, message?.parts ?? [], at);
      } else if ('artifactUpdate' in event) {
        const { artifact, append } = event.artifactUpdate;
        yield* artifactEvents(artifact, append === true, said, at);
      } else {
        for (const artifact of event.task.artifacts ?? [])
          yield* artifactEvents(artifact, false, said, at);
      }
    }
  } finally {
    unlisten();
  }
  for (const { kind, message: words } of stream.problems) {
    const message = kind === 'no-streaming' ? words : `the server broke its contract: ${words}`;
    yield { type: 'status', message, at: Date.now() };
  }
  yield* endOf(stream, signal);
}

/** `said`: how many characters of each artifact were shown. A text that grows is sent whole by some. */
function* artifactEvents(
  { artifactId, parts, name }: A2AArtifact,
  append: boolean,
  said: Map<string, number>,
  at: number,
): Generator<PrintableEvent> {
  const text = wordsOf(parts);
  const shown = said.get(artifactId) ?? 0;
  const delta = append ? text : text.slice(shown);
  if (delta !== '') yield { type: 'text.delta', id: artifactId, delta, at };
  said.set(artifactId, append ? shown + text.length : Math.max(shown, text.length));
  const rest = parts.filter((part) => part.text === undefined).map(decodePart);
  if (rest.length === 0) return;
  yield { type: 'artifact', artifactId, parts: rest, at, ...(name !== undefined && { name }) };
}

function* statusEvents(
  state: A2AState,
  parts: readonly A2APart[],
  at: number,
): Generator<PrintableEvent> {
  if (TERMINAL.has(state) || INTERRUPTED.has(state)) return; // said at the end
  const message = wordsOf(parts);
  if (message !== '') yield { type: 'status', message, at };
}

function* endOf(stream: A2AStream, signal: AbortSignal): Generator<PrintableEvent> {
  const state = stream.status?.state;
  const at = Date.now();
  if (state === undefined) {
    const outcome = signal.aborted ? 'canceled' : 'completed';
    yield { type: 'run.finished', outcome, text: stream.text, at };
  } else if (TERMINAL.has(state)) {
    const outcome = state.slice('TASK_STATE_'.length).toLowerCase() as Outcome;
    const message = wordsOf(stream.status?.message?.parts ?? []);
    const error = new DuolaneError('server', message || `the agent ended as ${outcome}`).toJSON();
    yield {
      type: 'run.finished',
      outcome,
      text: stream.text,
      at,
      ...((outcome === 'failed' || outcome === 'rejected') && { error }),
    };
  }
}

/** What a waiting task is told next; undefined when it does not wait, or nobody wants to answer. */
async function answered(stream: A2AStream, { ask, signal }: SayOptions): Promise<Turn | undefined> {
  const { status, taskId } = stream;
  if (!status || !INTERRUPTED.has(status.state) || signal.aborted) return undefined;
  const requests = questionsOf(status.message?.parts ?? []);
  const answers: Answer[] = [];
  try {
    for (const request of requests) answers.push(await ask(request));
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
  const place = taskId === undefined ? {} : { taskId };
  const [only] = answers;
  if (requests[0]?.id !== PLAIN) return { ...place, parts: [{ data: { answers } }] };
  const words = only?.action === 'accept' ? (only.content ?? 'approve') : 'reject';
  return { ...place, parts: [{ text: typeof words === 'string' ? words : JSON.stringify(words) }] };
}

/** A question of a server that does not name its questions. */
const PLAIN = 'plain';

/** The questions that our own servers name in data parts; else the text is the question. */
function questionsOf(parts: readonly A2APart[]): readonly InputRequest[] {
  const named = parts.flatMap(({ data }) => {
    const request = isObject(data) ? data['request'] : undefined;
    return isObject(request) && typeof request['id'] === 'string' ? [request] : [];
  });
  if (named.length > 0) return named as unknown as InputRequest[];
  return [{ id: PLAIN, kind: 'question', message: wordsOf(parts) }];
}

const wordsOf = (parts: readonly A2APart[]): string => parts.map(({ text = '' }) => text).join('');

function encodePart(part: Part): A2APart {
  if (!('bytes' in part)) return part;
  const { bytes, ...rest } = part;
  return { ...rest, raw: Buffer.from(bytes).toString('base64') };
}

function decodePart({ data, url, raw, mediaType = 'application/octet-stream' }: A2APart): Part {
  if (url !== undefined) return { url, mediaType };
  if (raw !== undefined) return { bytes: Buffer.from(raw, 'base64'), mediaType };
  return { data };
}
