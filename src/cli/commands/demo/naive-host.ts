import type { Frame } from '../../../event/types.ts';
import { isObject, type JsonObject } from '../../../json.ts';
import { spawnProcess, type ProcessTransport } from '../../../process/index.ts';
import { PipeTap } from '../../../trace/index.ts';
import { encodeLine, JsonlDecoder, InvalidLine } from '../../../wire/jsonl.ts';
import type { FaultSetup } from './fault-setup.ts';

/**
 * A host as a first version is often written: start the CLI, send the prompt, read line by line,
 * answer tool calls. Each line looks correct.
 */
export class NaiveHost implements AsyncDisposable {
  readonly cli: ProcessTransport;
  /** The frames of the pipe, for the doctor. */
  readonly frames: Frame[] = [];
  readonly #setup: FaultSetup;
  readonly #tap = new PipeTap((frame) => this.frames.push(frame));

  constructor(setup: FaultSetup) {
    this.#setup = setup;
    this.cli = spawnProcess({
      command: setup.command,
      args: setup.args,
      cwd: setup.folder,
      env: setup.env,
      graceMs: 200,
      killMs: 500,
    });
  }

  send(frame: JsonObject): void {
    const line = encodeLine(frame);
    this.cli.write(line);
    this.#tap.bytes('out', Buffer.from(line));
  }

  prompt(text: string): void {
    const request = { subtype: 'initialize', sdkMcpServers: ['guide'] };
    this.send({ type: 'control_request', request_id: 'init', request });
    this.send({ type: 'user', message: { role: 'user', content: text } });
  }

  endInput(): void {
    this.cli.endInput();
    this.#tap.ended('out');
  }

  async *lines(): AsyncGenerator<JsonObject, void, undefined> {
    const decoder = new JsonlDecoder();
    for await (const chunk of this.cli.output) {
      this.#tap.bytes('in', chunk);
      for (const line of decoder.decode(chunk)) if (!(line instanceof InvalidLine)) yield line;
    }
    const { code, signal } = await this.cli.exited;
    this.#tap.exited(code, signal);
  }

  /** Answers a request of the CLI to the in-process server. */
  async answer({ request_id, request }: JsonObject): Promise<void> {
    const message = isObject(request) && isObject(request['message']) ? request['message'] : {};
    const { id, method } = message;
    const result = method === undefined ? {} : await this.#result(method);
    const response = { mcp_response: { jsonrpc: '2.0', id, result } };
    this.send({ type: 'control_response', response: { subtype: 'success', request_id, response } });
  }

  async #result(method: unknown): Promise<JsonObject> {
    if (method === 'initialize') {
      return {
        protocolVersion: '2025-06-18',
        capabilities: { tools: {} },
        serverInfo: { name: 'guide', version: '1' },
      };
    }
    if (method === 'tools/list')
      return { tools: [{ name: 'search', inputSchema: { type: 'object' } }] };
    if (method !== 'tools/call') return {};
    return { content: [{ type: 'text', text: await this.#setup.search() }] };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cli[Symbol.asyncDispose]();
  }
}

/** The text of a line that is a text delta. */
export function deltaOf({ type, event }: JsonObject): string | undefined {
  if (type !== 'stream_event' || !isObject(event) || !isObject(event['delta'])) return undefined;
  const { text } = event['delta'];
  return typeof text === 'string' ? text : undefined;
}
