import {
  connectA2A,
  type A2AArtifact,
  type A2AClient,
  type A2APart,
  type A2AStream,
} from '../../a2a/index.ts';
import { INTERRUPTED, TERMINAL, type A2AState } from '../../a2a/protocol/model.ts';
import { encodeAnswers } from '../../a2a/client/task-questions.ts';
import type { Answer } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import type { Outcome, Part } from '../../event/types.ts';
import { omitUndefined } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
import type { AgentChat, SayOptions } from './local-chat.ts';
import type { PrintableEvent } from '../terminal/entry-printer.ts';

/** Options of `openRemoteChat()`. */
export interface RemoteOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Called once when a connection has broken, before it is opened again. */
  readonly onDisconnect: () => void;
}

/**
 * Opens a chat with the agent of any A2A server. A broken connection is opened again automatically.
 */
export async function openRemoteChat(
  url: string,
  { headers, signal, onDisconnect }: RemoteOptions,
): Promise<AgentChat> {
  const client = await connectA2A(url, { headers, signal });
  const { name } = client.card;
  let contextId: string | undefined;
  return {
    name: typeof name === 'string' ? name : url,
    async *say(parts, options) {
      for (let turn: Turn | undefined = { parts: parts.map(encodePart) }; turn;) {
        const stream: A2AStream = client.stream(turn.parts, {
          onDisconnect,
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

/** The new events of a stream: a server that cannot resume sends everything again. */
async function* follow(
  client: A2AClient,
  stream: A2AStream,
  { signal }: SayOptions,
): AsyncGenerator<PrintableEvent, void, undefined> {
  const cancel = (): void => {
    const task = stream.taskId;
    if (task === undefined) return stream.disconnect();
    // A cancel fails if the task has ended or cannot be canceled.
    void client.cancel(task).catch(() => stream.disconnect());
  };
  const unlisten = onAbort(signal, cancel);
  const printed = new Map<string, number>();
  try {
    for await (const event of stream) {
      const at = Date.now();
      if ('message' in event) {
        const delta = partsText(event.message.parts);
        yield { type: 'text.delta', id: 'message', delta, at };
      } else if ('statusUpdate' in event) {
        const { state, message } = event.statusUpdate.status;
        yield* statusEvents(state, message?.parts ?? [], at);
      } else if ('artifactUpdate' in event) {
        const { artifact, append } = event.artifactUpdate;
        yield* artifactEvents(artifact, append === true, printed, at);
      } else {
        for (const artifact of event.task.artifacts ?? [])
          yield* artifactEvents(artifact, false, printed, at);
      }
    }
  } finally {
    unlisten();
  }
  for (const { kind, message: problem } of stream.problems) {
    const message =
      kind === 'no-streaming' ? problem : `the server broke the stream contract: ${problem}`;
    yield { type: 'status', message, at: Date.now() };
  }
  yield* endOf(stream, signal);
}

/**
 * `printed` counts the characters of each artifact that were printed: some servers send a growing
 * text complete each time.
 */
function* artifactEvents(
  { artifactId, parts, name }: A2AArtifact,
  append: boolean,
  printed: Map<string, number>,
  at: number,
): Generator<PrintableEvent> {
  const text = partsText(parts);
  const shown = printed.get(artifactId) ?? 0;
  const delta = append ? text : text.slice(shown);
  if (delta !== '') yield { type: 'text.delta', id: artifactId, delta, at };
  printed.set(artifactId, append ? shown + text.length : Math.max(shown, text.length));
  const rest = parts.filter((part) => part.text === undefined).map(decodePart);
  if (rest.length === 0) return;
  yield { type: 'artifact', artifactId, parts: rest, at, ...(name !== undefined && { name }) };
}

function* statusEvents(
  state: A2AState,
  parts: readonly A2APart[],
  at: number,
): Generator<PrintableEvent> {
  if (TERMINAL.has(state) || INTERRUPTED.has(state)) return; // `endOf` reports it
  const message = partsText(parts);
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
    const message = partsText(stream.status?.message?.parts ?? []);
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

/** The next turn of a waiting task: the user's answers. Undefined if it does not wait. */
async function answered(stream: A2AStream, { ask, signal }: SayOptions): Promise<Turn | undefined> {
  const { status, taskId } = stream;
  if (!status || !INTERRUPTED.has(status.state) || signal.aborted) return undefined;
  const answers: Answer[] = [];
  try {
    for (const request of stream.questions) answers.push(await ask(request));
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
  return { parts: encodeAnswers(status, answers), ...omitUndefined({ taskId }) };
}

const partsText = (parts: readonly A2APart[]): string =>
  parts.map(({ text = '' }) => text).join('');

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
