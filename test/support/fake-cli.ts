import type { JsonObject } from '../../src/json.ts';
import { openSession, type Session, type SessionOptions } from '../../src/host/index.ts';
import { memoryTransport, type MemoryPeer, type Transport } from '../../src/process/index.ts';
import { Channel } from '../../src/stream/channel.ts';
import { JsonlDecoder, InvalidLine } from '../../src/wire/jsonl.ts';

/** A frame of the host, with the members that tests read. */
export type HostFrame = JsonObject & {
  readonly type: string;
  readonly request_id: string;
  readonly request: JsonObject;
  readonly response: JsonObject & { readonly request_id: string; readonly response: JsonObject };
};

/** A CLI in memory that a test controls: it reads the frames of the host and writes any frame. */
export class FakeCli {
  readonly transport: Transport;
  readonly peer: MemoryPeer;
  /** Set once the host has closed stdin. */
  inputEnded = false;
  readonly #frames = new Channel<HostFrame>({ capacity: 10_000 });
  readonly #reader = this.#frames[Symbol.asyncIterator]();
  readonly ended: Promise<void>;
  #count = 0;

  constructor() {
    const { transport, peer } = memoryTransport();
    this.transport = transport;
    this.peer = peer;
    this.ended = this.#read();
  }

  /** The next frame of the host, or undefined at the end of its input. */
  async next(): Promise<HostFrame | undefined> {
    const { value } = await this.#reader.next();
    return value ?? undefined;
  }

  /** Frames up to the first for which `matches` holds; throws at the end of input. */
  async until(type: string, subtype?: string): Promise<HostFrame> {
    for (;;) {
      const frame = await this.next();
      if (!frame) throw new Error(`the host ended its input before ${type} ${subtype ?? ''}`);
      const found = frame.request?.['subtype'] ?? frame.response?.['subtype'];
      if (frame.type === type && (subtype === undefined || found === subtype)) return frame;
    }
  }

  say(...frames: JsonObject[]): void {
    this.peer.write(frames.map((frame) => `${JSON.stringify(frame)}\n`).join(''));
  }

  /** Waits for `initialize` and responds to it. */
  async initialize(response: JsonObject = {}): Promise<HostFrame> {
    const frame = await this.until('control_request', 'initialize');
    this.answer(frame.request_id, response);
    return frame;
  }

  answer(request_id: string, response: JsonObject = {}): void {
    this.say({ type: 'control_response', response: { subtype: 'success', request_id, response } });
  }

  request(request: JsonObject, request_id = `cli_${++this.#count}`): string {
    this.say({ type: 'control_request', request_id, request });
    return request_id;
  }

  /** Calls a tool of the host; the result comes as a `control_response` with this id. */
  call(server: string, name: string, args: JsonObject = {}, id: number | string = 2): string {
    const params = { name, arguments: args, _meta: { 'claudecode/toolUseId': `toolu_${id}` } };
    const message = { jsonrpc: '2.0', id, method: 'tools/call', params };
    return this.request({ subtype: 'mcp_message', server_name: server, message });
  }

  /** The response of the host to one of our requests. */
  async answerTo(id: string): Promise<JsonObject> {
    for (;;) {
      const frame = await this.until('control_response');
      if (frame.response.request_id === id) return frame.response;
    }
  }

  assistant(text: string, more: JsonObject = {}): JsonObject {
    const message = { role: 'assistant', content: [{ type: 'text', text }] };
    return { type: 'assistant', message, session_id: 'fake', uuid: `u${++this.#count}`, ...more };
  }

  result(more: JsonObject = {}): JsonObject {
    return { type: 'result', subtype: 'success', is_error: false, session_id: 'fake', ...more };
  }

  state(state: string): JsonObject {
    return { type: 'system', subtype: 'session_state_changed', state, sdk_host_only: true };
  }

  async #read(): Promise<void> {
    const decoder = new JsonlDecoder();
    for await (const chunk of this.peer.input) {
      for (const frame of decoder.decode(chunk)) {
        if (frame instanceof InvalidLine) throw frame.error;
        await this.#frames.push(frame as HostFrame);
      }
    }
    this.inputEnded = true;
    this.#frames.close();
  }
}

/**
 * A session with a CLI that the test controls; it exits at the end of input unless an option says
 * otherwise.
 */
export async function playedSession(
  options: SessionOptions = {},
  { stays = false }: { readonly stays?: boolean } = {},
): Promise<{ readonly cli: FakeCli; readonly session: Session }> {
  const cli = new FakeCli();
  if (!stays) void cli.ended.then(() => cli.peer.exit());
  const session = await openSession({ transport: () => cli.transport, ...options });
  return { cli, session };
}

/** All items of an iterable. */
export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** A logger that stores its lines. */
export function keptLogger(): {
  readonly lines: {
    readonly level: string;
    readonly message: string;
    readonly data?: JsonObject;
  }[];
  readonly logger: NonNullable<SessionOptions['logger']>;
} {
  const lines: { level: string; message: string; data?: JsonObject }[] = [];
  const at = (level: string) => (message: string, data?: JsonObject) =>
    void lines.push({ level, message, ...(data && { data }) });
  const logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  return { lines, logger };
}
