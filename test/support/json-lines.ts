import type { JsonObject } from '../../src/json.ts';
import type { Transport } from '../../src/process/index.ts';

/** A raw host for tests of peers: writes any line and shows every line that arrives. */
export class LineHost {
  readonly #transport: Transport;
  readonly #lines: AsyncIterator<string>;
  /** All lines so far. */
  readonly seen: string[] = [];

  constructor(transport: Transport) {
    this.#transport = transport;
    this.#lines = lines(transport.output)[Symbol.asyncIterator]();
  }

  send(...frames: readonly JsonObject[]): void {
    for (const frame of frames) this.#transport.write(`${JSON.stringify(frame)}\n`);
  }

  prompt(text: string): void {
    this.send({ type: 'user', message: { role: 'user', content: text } });
  }

  request(id: string, request: JsonObject): void {
    this.send({ type: 'control_request', request_id: id, request });
  }

  answer(frame: JsonObject, response: JsonObject): void {
    const request_id = frame['request_id'];
    this.send({
      type: 'control_response',
      response: { subtype: 'success', request_id, response },
    });
  }

  /** The next line, or undefined at the end. */
  async line(): Promise<string | undefined> {
    const { done, value } = await this.#lines.next();
    if (done) return undefined;
    this.seen.push(value);
    return value;
  }

  /**
   * Reads up to the first frame with these members; at the end it throws an error with the frames
   * read.
   */
  async until(members: JsonObject): Promise<JsonObject> {
    for (;;) {
      const line = await this.line();
      if (line === undefined) {
        throw new Error(`no ${JSON.stringify(members)} among:\n${this.seen.join('\n')}`);
      }
      const frame = parse(line);
      if (frame && Object.entries(members).every(([name, value]) => frame[name] === value)) {
        return frame;
      }
    }
  }

  /** Reads to the end and returns all frames that are objects. */
  async rest(): Promise<JsonObject[]> {
    while ((await this.line()) !== undefined);
    return this.seen.map(parse).filter((frame) => frame !== undefined);
  }
}

function parse(line: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as JsonObject) : undefined;
  } catch {
    return undefined;
  }
}

async function* lines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let parts: string[] = [];
  for await (const chunk of chunks) {
    const [first = '', ...more] = decoder.decode(chunk, { stream: true }).split('\n');
    parts.push(first);
    for (const next of more) {
      yield parts.join('');
      parts = [next];
    }
  }
  const last = parts.join('');
  if (last !== '') yield last;
}
