import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { settledWithin } from '../../stream/abort.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { spawnProcess } from '../../process/index.ts';
import type { Exit, ProcessOptions, Transport } from '../../process/types.ts';
import { encodeRpc } from '../../wire/json-rpc.ts';
import { JsonlDecoder, InvalidLine } from '../../wire/jsonl.ts';
import type {
  DialMessagesOptions,
  MessageTransport,
  OfferMessagesOptions,
  ToolSource,
} from '../types.ts';
import { dialMessages } from './client/dial-messages.ts';
import { serveMessages, type ServedMessages } from './server/serve-messages.ts';

export interface LinesOptions {
  /** Lines that are no JSON objects (a server that prints); they are skipped. */
  readonly onNoise?: (text: string) => void;
}

/** Starts a tool server and dials it over its stdin and stdout. Disposing ends its whole tree. */
export const dialStdio = (
  options: ProcessOptions & DialMessagesOptions & LinesOptions,
): Promise<ToolSource & AsyncDisposable> => dialTransport(spawnProcess(options), options);

/**
 * The server behind a byte pipe, one message per line. Disposing ends the peer. When the peer ends
 * by itself, whatever is in flight throws `peer_exited` with its exit code and last words.
 */
export async function dialTransport(
  transport: Transport,
  options: DialMessagesOptions & LinesOptions = {},
): Promise<ToolSource & AsyncDisposable> {
  const pipe = new Pipe(transport);
  return dialMessages(
    {
      incoming: pipe.incoming(options),
      send: (message) => pipe.send(`${encodeRpc(message)}\n`),
      close: async () => transport[Symbol.asyncDispose](),
    },
    options,
  );
}

/** How long a failed write waits for the exit that explains it. */
const EXIT_MS = 1_000;

class Pipe {
  readonly #transport: Transport;
  /** Why what was written cannot arrive. */
  #lost: Error | undefined;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async *incoming(options: LinesOptions): AsyncGenerator<JsonObject, void, undefined> {
    yield* lines(this.#transport.output, options);
    throw endOf(await this.#transport.exited, this.#lost);
  }

  async send(line: string): Promise<void> {
    const transport = this.#transport;
    try {
      if (!transport.write(line, (reason) => this.#lose(reason))) await transport.drained();
    } catch (error) {
      // It often has ended, or was never started: that says more.
      if (!(await settledWithin(transport.exited, EXIT_MS))) throw error;
      throw endOf(await transport.exited, this.#lost);
    }
  }

  /** Nobody will answer what was written: a server that no longer reads is ended, and all calls with it. */
  #lose(reason: Error): void {
    this.#lost ??= reason;
    Promise.resolve(this.#transport[Symbol.asyncDispose]()).catch(reportUnexpected);
  }
}

const endOf = (exit: Exit, lost: Error | undefined): Error =>
  exit.startError ??
  new DuolaneError(
    'peer_exited',
    lost ? `${lastWords(exit)}; before, it stopped reading its input` : lastWords(exit),
    { cause: lost },
  );

function lastWords({ code, signal, stderr }: Exit): string {
  const how = signal === undefined ? `code ${code}` : `signal ${signal}`;
  const tail = stderr.trim().slice(-500);
  return `the tool server ended with ${how}${tail ? `; its last words: ${tail}` : ''}`;
}

async function* lines(
  chunks: AsyncIterable<Uint8Array>,
  { onNoise }: LinesOptions,
): AsyncGenerator<JsonObject, void, undefined> {
  const decoder = new JsonlDecoder();
  for await (const chunk of chunks) yield* messages(decoder.decode(chunk), onNoise);
  yield* messages(decoder.flush(), onNoise);
}

function* messages(
  decoded: ReadonlyArray<JsonObject | InvalidLine>,
  onNoise: LinesOptions['onNoise'],
): Generator<JsonObject, void, undefined> {
  for (const message of decoded) {
    if (!(message instanceof InvalidLine)) yield message;
    // What was cut off may have been an answer: somebody would wait for it for ever.
    else if (message.error.code === 'too_large') throw message.error;
    else onNoise?.(message.text);
  }
}

export interface OfferStdioOptions extends OfferMessagesOptions, LinesOptions {
  readonly input?: Readable;
  readonly output?: Writable;
}

/** Serves a source on this process's own stdin and stdout until stdin ends. Print nothing else there. */
export function offerStdio(source: ToolSource, options: OfferStdioOptions = {}): ServedMessages {
  const { input = process.stdin, output = process.stdout, ...rest } = options;
  return serveMessages(source, streamTransport(input, output, rest), rest);
}

/** Resolves when there is room or the signal aborts; rejects with an error of the output. */
async function untilRoom(output: Writable, signal: AbortSignal): Promise<void> {
  try {
    await once(output, 'drain', { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** The items; when they end, or their reader leaves, `end` is called. */
async function* endingWith<T>(
  items: AsyncIterable<T>,
  end: () => void,
): AsyncGenerator<T, void, undefined> {
  try {
    yield* items;
  } finally {
    end();
  }
}

function streamTransport(
  input: Readable,
  output: Writable,
  options: LinesOptions,
): MessageTransport {
  // A client that went away shows as the end of input; its broken pipe must not end the process.
  output.on('error', () => {});
  const gone = new AbortController();
  const leave = (): void => gone.abort(new DuolaneError('closed', 'the client has gone'));
  // A client that has gone makes no room: a wait for it ends with the input and with the output.
  output.once('close', leave);
  let room: Promise<unknown> | undefined;
  return {
    incoming: endingWith(lines(input, options), leave),
    async send(message) {
      if (output.destroyed) throw new DuolaneError('closed', 'the client has gone');
      if (output.write(`${encodeRpc(message)}\n`) || gone.signal.aborted) return;
      // One for all who wait: each would listen on the same stream.
      await (room ??= untilRoom(output, gone.signal).finally(() => (room = undefined)));
    },
    async close() {
      input.destroy();
    },
  };
}
