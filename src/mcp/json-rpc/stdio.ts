import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject, omitUndefined, tryParse } from '../../json.ts';
import { settledWithin } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { spawnProcess } from '../../process/index.ts';
import type { Exit, ProcessOptions, Transport } from '../../process/types.ts';
import { encodeRpc, isRpcId } from '../../wire/json-rpc.ts';
import { toRpcError } from '../../wire/json-rpc-errors.ts';
import { InvalidLine, LineDecoder, type LineOptions, parseLine } from '../../wire/jsonl.ts';
import type {
  DialMessagesOptions,
  MessageTransport,
  OfferMessagesOptions,
  ToolSource,
} from '../types.ts';
import { dialMessages } from './client/dial-messages.ts';
import type { ServedMessages } from '../relay/serve-endpoint.ts';
import { type Upstream, withUpstream } from '../relay/upstream.ts';
import { serveMessages } from './server/serve-messages.ts';

/** How to handle lines that are not messages. */
export interface LinesOptions {
  /**
   * Receives lines that are not JSON objects (a server that prints to stdout). They are skipped.
   */
  readonly onNoise?: (text: string) => void;
  /**
   * The longest line, 64 MiB by default. Of a longer one only the ends are read: if it is a
   * response, its request fails; other requests go on.
   */
  readonly maxBytes?: number;
}

/** The options of `dialStdio`. */
export interface DialStdioOptions extends ProcessOptions, DialMessagesOptions, LinesOptions {
  /**
   * How many processes a bridge starts for its clients, each of which gets one of its own; 100 by
   * default. A further client is refused with `overloaded`.
   */
  readonly maxProcesses?: number;
}

/**
 * Starts a tool server and connects to its stdin and stdout. Disposing ends its process tree.
 *
 * @example
 * ```ts
 * const env = buildEnv();
 * await using source = await dialStdio({ command: 'node', args: ['server.js'], env });
 * for await (const tool of source.listTools()) console.log(tool.name);
 * ```
 */
export async function dialStdio(options: DialStdioOptions): Promise<ToolSource & AsyncDisposable> {
  const source = await dialTransport(spawnProcess(options), options);
  const upstream = new StdioUpstream(options);
  const dialled = {
    ...source,
    [Symbol.asyncDispose]: disposeOnce(async () => {
      await upstream[Symbol.asyncDispose]();
      await source[Symbol.asyncDispose]();
    }),
  };
  return withUpstream(dialled, upstream);
}

/** How many processes a bridge starts for its clients. */
const MAX_PROCESSES = 100;

/** A server over stdio, for a bridge: a process for each client. */
class StdioUpstream implements Upstream, AsyncDisposable {
  readonly reopens = true;
  readonly #options: DialStdioOptions;
  readonly #max: number;
  /** The processes that run; at most `maxProcesses`. */
  readonly #processes = new Set<Transport>();
  #closed = false;

  constructor(options: DialStdioOptions) {
    this.#options = options;
    this.#max = options.maxProcesses ?? MAX_PROCESSES;
  }

  async open(): Promise<MessageTransport> {
    if (this.#closed) throw new DuolaneError('closed', 'the connection to the server is closed');
    if (this.#processes.size >= this.#max)
      throw new DuolaneError(
        'overloaded',
        `the processes of the tool server exceed maxProcesses (${this.#max}); try again later`,
      );
    const server = spawnProcess(this.#options);
    this.#processes.add(server);
    server.exited.finally(() => this.#processes.delete(server)).catch(reportUnexpected);
    if (server.pid === undefined) throw (await server.exited).startError;
    return lineMessages(server, this.#options);
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    this.#closed = true;
    await Promise.all([...this.#processes].map((each) => each[Symbol.asyncDispose]()));
  });
}

/**
 * Connects to a server over a byte pipe, one message per line. Disposing ends the server. If the
 * server exits, everything in flight throws `peer_exited` with its exit code and the end of its
 * stderr.
 */
export async function dialTransport(
  transport: Transport,
  options: DialMessagesOptions & LinesOptions = {},
): Promise<ToolSource & AsyncDisposable> {
  return dialMessages(lineMessages(transport, options), options);
}

/** JSON-RPC over the pipes of a process, one message per line. */
function lineMessages(transport: Transport, options: LinesOptions): MessageTransport {
  const pipe = new Pipe(transport);
  return {
    incoming: pipe.incoming(options),
    send: (message) => pipe.send(`${encodeRpc(message)}\n`),
    close: async () => transport[Symbol.asyncDispose](),
  };
}

/** How long a failed write waits for the exit that explains it. */
const EXIT_MS = 1_000;

/** Sends and receives over the pipes of a process, and explains a failure by its exit. */
class Pipe {
  readonly #transport: Transport;
  /** The error of a write that the server did not read. */
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
      // The process often has exited or failed to start. That error says more than a broken pipe.
      if (!(await settledWithin(transport.exited, EXIT_MS))) throw error;
      throw endOf(await transport.exited, this.#lost);
    }
  }

  /**
   * Ends a server that does not read its stdin any more: it will not respond to what was written,
   * so all calls must fail.
   */
  #lose(reason: Error): void {
    this.#lost ??= reason;
    Promise.resolve(this.#transport[Symbol.asyncDispose]()).catch(reportUnexpected);
  }
}

const endOf = (exit: Exit, lost: Error | undefined): Error =>
  exit.startError ??
  new DuolaneError(
    'peer_exited',
    lost ? `${describeExit(exit)}; before that, it stopped reading its stdin` : describeExit(exit),
    { cause: lost },
  );

function describeExit({ code, signal, stderr }: Exit): string {
  const how = signal === undefined ? `code ${code}` : `signal ${signal}`;
  const tail = stderr.trim().slice(-500);
  return `the tool server exited with ${how}${tail ? `; end of its stderr: ${tail}` : ''}`;
}

/** Yields the messages of the peer. Calls `onEnd` when they end, or the reader stops. */
async function* lines(
  chunks: AsyncIterable<Uint8Array>,
  { onNoise, maxBytes }: LinesOptions,
  onEnd = (): void => {},
): AsyncGenerator<JsonObject, void, undefined> {
  const decoder = new LineDecoder(omitUndefined<LineOptions>({ maxBytes }));
  try {
    for await (const chunk of chunks) yield* messages(decoder.decode(chunk), onNoise);
    yield* messages(decoder.flush(), onNoise);
  } finally {
    onEnd();
  }
}

function* messages(
  decoded: ReadonlyArray<string | InvalidLine>,
  onNoise: LinesOptions['onNoise'],
): Generator<JsonObject, void, undefined> {
  for (const line of decoded) {
    const message = typeof line === 'string' ? parseLine(line) : line;
    if (!(message instanceof InvalidLine)) yield message;
    else if (message.error.code === 'too_large') yield replaceLong(message);
    else {
      const batch = typeof line === 'string' ? batchIn(line) : undefined;
      if (batch) yield* batch;
      else onNoise?.(message.text);
    }
  }
}

/** The messages of a line with an array, as the revision 2025-03-26 allows. */
function batchIn(line: string): readonly JsonObject[] | undefined {
  const value = line.startsWith('[') ? tryParse(line) : undefined;
  return Array.isArray(value) && value.length > 0 && value.every(isObject) ? value : undefined;
}

/** The id of a response at the beginning of its line, and at the end, as JSON. */
const ID_FIRST = /^\{(?:"jsonrpc":"2\.0",)?"id":(\d{1,16}|"[\w-]{1,256}"),"(?:result|error)"/;
const ID_LAST = /^,"id":(\d{1,16}|"[\w-]{1,100}")(?:,"jsonrpc":"2\.0")?\}\s*$/;
const RESULT_FIRST = /^\{(?:"jsonrpc":"2\.0",)?"(?:result|error)":/;

/**
 * Reads from the ends of a line over the limit which request it answers, and returns an error
 * response to it: its caller would wait forever. A line without an id there cannot be assigned, so
 * the connection fails.
 */
function replaceLong({ text, end, error }: InvalidLine): JsonObject {
  const [, first] = ID_FIRST.exec(text) ?? [];
  const [, last] = RESULT_FIRST.test(text) ? (ID_LAST.exec(lastMember(end)) ?? []) : [];
  const id = tryParse(first ?? last ?? '');
  if (!isRpcId(id)) throw error;
  return toRpcError(id, error);
}

/** The end of a line from the comma before its last members on. */
function lastMember(end: string): string {
  const at = Math.max(end.lastIndexOf(',"id":'), 0);
  return end.slice(at);
}

/** The streams of `offerStdio`; stdin and stdout of this process by default. */
export interface OfferStdioOptions extends OfferMessagesOptions, LinesOptions {
  readonly input?: Readable;
  readonly output?: Writable;
}

/**
 * Serves a source on stdin and stdout of this process until stdin ends. The program must print
 * nothing else to stdout.
 */
export function offerStdio(source: ToolSource, options: OfferStdioOptions = {}): ServedMessages {
  const { input = process.stdin, output = process.stdout, ...rest } = options;
  return serveMessages(source, streamTransport(input, output, rest), rest);
}

/**
 * Resolves when the output accepts data again or the signal aborts; rejects with an error of the
 * output.
 */
async function untilRoom(output: Writable, signal: AbortSignal): Promise<void> {
  try {
    await once(output, 'drain', { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

function streamTransport(
  input: Readable,
  output: Writable,
  options: LinesOptions,
): MessageTransport {
  // The end of input reports a client that has disconnected; its broken pipe must not end the
  // process.
  output.on('error', () => {});
  const gone = new AbortController();
  const disconnect = (): void =>
    gone.abort(new DuolaneError('closed', 'the client has disconnected'));
  // A client that has disconnected never drains the output, so a wait for it ends with the input or
  // the output.
  output.once('close', disconnect);
  let room: Promise<unknown> | undefined;
  return {
    incoming: lines(input, options, disconnect),
    async send(message) {
      if (output.destroyed)
        throw new DuolaneError('closed', 'cannot send: the client has disconnected');
      if (output.write(`${encodeRpc(message)}\n`) || gone.signal.aborted) return;
      // One wait for all senders: each would add a listener to the same stream.
      await (room ??= untilRoom(output, gone.signal).finally(() => (room = undefined)));
    },
    async close() {
      input.destroy();
    },
  };
}
