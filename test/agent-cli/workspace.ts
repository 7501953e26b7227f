import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { JsonObject } from '../../src/json.ts';
import { type ProcessTransport, spawnProcess } from '../../src/process/index.ts';
import { JsonlDecoder, InvalidLine } from '../../src/wire/index.ts';

export const AGENT: string = fileURLToPath(
  new URL('../../dist/agent-cli/main.js', import.meta.url),
);

/**
 * A place of its own for one test: working directory, config, and nothing of this machine's
 * environment.
 */
export class Workspace implements AsyncDisposable {
  readonly root: string;
  readonly cwd: string;
  readonly config: string;
  readonly #env: Record<string, string>;
  #scripts = 0;

  static async open(env: Record<string, string> = {}, base: string = tmpdir()): Promise<Workspace> {
    const root = await mkdtemp(join(base, 'duolane-agent-'));
    const workspace = new Workspace(root, env);
    await mkdir(workspace.cwd);
    return workspace;
  }

  private constructor(root: string, env: Record<string, string>) {
    this.root = root;
    this.cwd = join(root, 'work');
    this.config = join(root, 'config');
    this.#env = env;
  }

  get env(): Record<string, string> {
    return {
      PATH: process.env['PATH'] ?? '',
      HOME: this.root,
      CLAUDE_CONFIG_DIR: this.config,
      ...this.#env,
    };
  }

  /** The name of a model that says these answers, one after the other. */
  async script(answers: readonly JsonObject[]): Promise<string> {
    const file = join(this.root, `script-${this.#scripts++}.json`);
    await writeFile(file, JSON.stringify(answers));
    return `script:${file}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.root, { recursive: true, force: true });
  }
}

/** Answers a control request of the agent; `undefined` leaves it open. */
export type Responder = (request: JsonObject, frame: JsonObject) => unknown;

/**
 * A host without our host library: writes lines, records every line that it reads, and responds to
 * requests with the registered responders.
 */
export class RawHost implements AsyncDisposable {
  readonly transport: ProcessTransport;
  readonly seen: JsonObject[] = [];
  /** Lines that are not JSON objects; must stay empty. */
  readonly noise: string[] = [];
  readonly #responders = new Map<string, Responder>();
  readonly #over: Promise<void>;
  #ended = false;
  #wake: () => void = () => {};
  #at = 0;

  constructor(workspace: Workspace, flags: readonly string[], env: Record<string, string> = {}) {
    this.transport = spawnProcess({
      command: process.execPath,
      args: [AGENT, ...STREAM_FLAGS, ...flags],
      cwd: workspace.cwd,
      env: { ...workspace.env, ...env },
    });
    this.#over = this.#read();
  }

  send(...frames: readonly JsonObject[]): void {
    this.transport.write(frames.map((frame) => `${JSON.stringify(frame)}\n`).join(''));
  }

  prompt(content: unknown, extra: JsonObject = {}): void {
    this.send({ type: 'user', message: { role: 'user', content }, ...extra });
  }

  request(id: string, subtype: string, fields: JsonObject = {}): void {
    this.send({ type: 'control_request', request_id: id, request: { subtype, ...fields } });
  }

  answer(frame: JsonObject, response: unknown): void {
    const { request_id } = frame;
    this.send({ type: 'control_response', response: { subtype: 'success', request_id, response } });
  }

  /** From now on, requests of this kind are answered so. */
  respond(subtype: string, responder: Responder): void {
    this.#responders.set(subtype, responder);
  }

  /**
   * Declares an in-process server `calc` and serves it; a call is answered when `call` gives a
   * text.
   */
  serve(
    tools: readonly JsonObject[],
    call: (params: JsonObject, frame: JsonObject) => string | undefined,
    initialize: JsonObject = {},
  ): void {
    this.request('init', 'initialize', { sdkMcpServers: ['calc'], ...initialize });
    this.respond('mcp_message', ({ message }, frame) => {
      const { id, method, params } = message as JsonObject;
      const reply = (result: JsonObject): JsonObject => ({
        mcp_response: { jsonrpc: '2.0', id, result },
      });
      if (method === 'initialize') {
        const serverInfo = { name: 'calc', version: '1' };
        return reply({
          protocolVersion: '2025-11-25',
          capabilities: { tools: { listChanged: true } },
          serverInfo,
        });
      }
      if (method === 'tools/list')
        return reply({
          tools: tools.map((tool) => ({ inputSchema: { type: 'object' }, ...tool })),
        });
      if (method !== 'tools/call') return reply({});
      const text = call(params as JsonObject, frame);
      return text === undefined ? undefined : reply({ content: [{ type: 'text', text }] });
    });
  }

  /**
   * The next frame for which `wanted` holds, of those not yet asked for; fails at the end of the
   * output.
   */
  async next(wanted: (frame: JsonObject) => boolean, what = 'the frame'): Promise<JsonObject> {
    for (;;) {
      while (this.#at < this.seen.length) {
        const frame = this.seen[this.#at++] as JsonObject;
        if (wanted(frame)) return frame;
      }
      if (this.#ended) {
        const { code, stderr } = await this.transport.exited;
        throw new Error(`the agent ended (code ${code}) before ${what}; stderr: ${stderr}`);
      }
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  type(type: string, subtype?: string): Promise<JsonObject> {
    return this.next(
      (frame) => frame['type'] === type && (subtype === undefined || frame['subtype'] === subtype),
      `${type} ${subtype ?? ''}`,
    );
  }

  /** The next control request of the agent of this kind. */
  asked(subtype: string): Promise<JsonObject> {
    return this.next((frame) => requestOf(frame)['subtype'] === subtype, subtype);
  }

  async answered(id: string): Promise<JsonObject> {
    const isAnswer = ({ type, response }: JsonObject): boolean =>
      type === 'control_response' && (response as JsonObject)['request_id'] === id;
    return (await this.next(isAnswer, `the answer to ${id}`))['response'] as JsonObject;
  }

  result(): Promise<JsonObject> {
    return this.type('result');
  }

  /**
   * Ends the input, reads to the end, and returns the exit code; fails if anything but protocol
   * came.
   */
  async end(): Promise<number | null> {
    this.transport.endInput();
    await this.#over;
    if (this.noise.length > 0) throw new Error(`not protocol: ${this.noise.join('\n')}`);
    return (await this.transport.exited).code;
  }

  types(): string[] {
    return this.seen.map(({ type, subtype }) => [type, subtype].filter(Boolean).join('/'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Requests that the agent still sends get no response.
    this.#responders.clear();
    await this.transport[Symbol.asyncDispose]();
    await this.#over;
  }

  async #read(): Promise<void> {
    const decoder = new JsonlDecoder();
    for await (const chunk of this.transport.output) this.#take(decoder.decode(chunk));
    this.#take(decoder.flush());
    this.#ended = true;
    this.#wake();
  }

  #take(frames: readonly (JsonObject | InvalidLine)[]): void {
    for (const frame of frames) {
      if (frame instanceof InvalidLine) {
        this.noise.push(frame.text);
        continue;
      }
      this.seen.push(frame);
      const request = requestOf(frame);
      const answer = this.#responders.get(String(request['subtype']))?.(request, frame);
      if (answer !== undefined) this.answer(frame, answer);
    }
    this.#wake();
  }
}

export const STREAM_FLAGS: readonly string[] = [
  '--output-format',
  'stream-json',
  '--verbose',
  '--input-format',
  'stream-json',
];

export const requestOf = (frame: JsonObject): JsonObject =>
  frame['type'] === 'control_request' ? (frame['request'] as JsonObject) : {};
