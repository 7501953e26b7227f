import { DuolaneError, type ErrorCode, invalid, unauthorized } from '../../errors.ts';
import { codeOfStatus } from '../../http-status.ts';
import {
  asArray,
  asNumber,
  asObject,
  asString,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';
import { buildEnv } from '../../process/env.ts';
import { spawnProcess } from '../../process/spawn.ts';
import type { ProcessTransport } from '../../process/types.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { ControlLink } from '../../wire/control-link.ts';
import { type ControlRequest, type ControlResponse, isControl } from '../../wire/control-peer.ts';
import { encodeLine, InvalidLine, JsonlDecoder } from '../../wire/jsonl.ts';

export interface ChildSessionOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** Gets each message of the child that is not part of the control protocol. */
  readonly onFrame: (frame: JsonObject) => void;
  /** Resolves when the client accepts more: a slow client slows the session. */
  readonly drained: () => Promise<void>;
  /** Answers a request of the child, such as `can_use_tool`. */
  readonly ask: (request: ControlRequest, signal: AbortSignal) => Promise<JsonObject>;
}

interface RunningPrompt {
  readonly resolve: (response: JsonObject) => void;
  readonly reject: (reason: unknown) => void;
  isCanceled: boolean;
}

/** Bytes that may wait for a child that does not read. */
const MAX_UNREAD_BYTES = 64 * 1024 * 1024;

/**
 * One session of an editor: a `duolane-agent` process that speaks stream-json. Each session has its
 * own process, since its working directory is that of the process, and a session that fails must
 * not end the others.
 */
export class ChildSession implements AsyncDisposable {
  readonly #child: ProcessTransport;
  readonly #lane: ControlLink;
  readonly #options: ChildSessionOptions;
  #prompt: RunningPrompt | undefined;
  #unread = 0;
  #failure: Error | undefined;

  constructor(options: ChildSessionOptions) {
    this.#options = options;
    const { command, args, cwd } = options;
    this.#child = spawnProcess({
      command,
      args,
      cwd,
      env: buildEnv(),
      onStderr: (text) => void process.stderr.write(text),
    });
    this.#lane = new ControlLink({
      side: 'host',
      write: (frame) => this.#write(frame),
      handle: (request, call) => this.#handle(request, call.signal),
    });
    this.#read().catch(reportUnexpected);
  }

  /** Sends a control request, such as `initialize`. */
  async request(request: ControlRequest): Promise<JsonObject> {
    if (this.#failure) throw this.#failure;
    try {
      return asObject(await this.#lane.request(request));
    } catch (error) {
      throw this.#failure ?? error;
    }
  }

  /** Runs one prompt and resolves with the response to it. */
  prompt(content: readonly JsonObject[]): Promise<JsonObject> {
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#prompt)
      return Promise.reject(
        invalid('cannot send the prompt: another one is running in this session; cancel it first'),
      );
    return new Promise((resolve, reject) => {
      this.#prompt = { resolve, reject, isCanceled: false };
      this.#write({ type: 'user', message: { role: 'user', content } });
    });
  }

  /** Interrupts the running prompt. */
  cancel(): void {
    if (!this.#prompt) return;
    this.#prompt.isCanceled = true;
    this.request({ subtype: 'interrupt', cancel_queued: true }).catch(() => {}); // it has exited
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    this.#fail(new DuolaneError('closed', 'the session is closed'));
    await this.#child[Symbol.asyncDispose]();
  });

  async #handle(request: ControlRequest, signal: AbortSignal): Promise<ControlResponse> {
    return { ok: true, response: await this.#options.ask(request, signal) };
  }

  async #read(): Promise<void> {
    const decoder = new JsonlDecoder();
    for await (const chunk of this.#child.output) {
      for (const line of decoder.decode(chunk)) this.#take(line);
      await this.#options.drained();
    }
    for (const line of decoder.flush()) this.#take(line);
    const { code, stderr, startError } = await this.#child.exited;
    this.#fail(startError ?? exitReason(code, stderr));
  }

  #take(line: JsonObject | InvalidLine): void {
    if (line instanceof InvalidLine) return this.#fail(line.error);
    if (isControl(line)) return this.#lane.receive(line);
    this.#options.onFrame(line);
    if (line['type'] !== 'result') return undefined;
    const prompt = this.#prompt;
    this.#prompt = undefined;
    try {
      prompt?.resolve(promptResponse(line, prompt.isCanceled));
    } catch (error) {
      prompt?.reject(error);
    }
    return undefined;
  }

  #write(frame: JsonObject): void {
    const line = encodeLine(frame);
    if (this.#unread + line.length > MAX_UNREAD_BYTES)
      return this.#fail(new DuolaneError('too_large', 'the session does not read its input'));
    try {
      if (this.#child.write(line)) return undefined;
    } catch {
      return undefined; // It has exited: `#read` fails everything that waits.
    }
    this.#unread += line.length;
    Promise.resolve(this.#child.drained())
      .catch(() => {}) // as above
      .finally(() => (this.#unread = 0))
      .catch(reportUnexpected);
    return undefined;
  }

  #fail(reason: Error): void {
    this.#failure ??= reason;
    this.#lane.end(DuolaneError.from(this.#failure));
    this.#prompt?.reject(this.#failure);
    this.#prompt = undefined;
  }
}

/** Why the process of a session has exited: the last line of its stderr says it to people. */
function exitReason(code: number | null, stderr: string): DuolaneError {
  const last =
    stderr
      .trim()
      .split('\n')
      .at(-1)
      ?.replace(/^duolane-agent: /, '') ?? '';
  // Without a key the editor offers the authentication methods.
  if (/missing key|ANTHROPIC_API_KEY/.test(last)) return unauthorized(last);
  return new DuolaneError('invalid', last || `the session exited with code ${String(code)}`);
}

/** The response to a prompt. Throws the failure of the model. */
function promptResponse(result: JsonObject, isCanceled: boolean): JsonObject {
  if (isCanceled) return { stopReason: 'cancelled' };
  const { subtype, is_error, stop_reason } = result;
  if (subtype === 'error_max_turns' || subtype === 'error_max_budget_usd')
    return { stopReason: 'max_turn_requests' };
  if (is_error === true) {
    const text = asArray(result['errors']).map(String).join('; ') || asString(result['result']);
    const status = asNumber(result['api_error_status']);
    const cause = { duolane: omitUndefined({ code: failureCode(status, text), status }) };
    throw new DuolaneError('server', text || 'the turn failed', { cause });
  }
  const { input_tokens = 0, output_tokens = 0, ...usage } = asObject(result['usage']);
  const cached = asNumber(usage['cache_read_input_tokens']);
  const written = asNumber(usage['cache_creation_input_tokens']);
  const stops: Readonly<Record<string, string>> = { max_tokens: 'max_tokens', refusal: 'refusal' };
  return {
    stopReason: stops[asString(stop_reason)] ?? 'end_turn',
    usage: omitUndefined({
      inputTokens: input_tokens,
      outputTokens: output_tokens,
      totalTokens: Number(input_tokens) + Number(output_tokens),
      cachedReadTokens: cached,
      cachedWriteTokens: written,
    }),
  };
}

/** The code for the error text of a turn that failed in the model. */
function failureCode(status: number | undefined, text: string): ErrorCode {
  if (status !== undefined) return codeOfStatus(status);
  return text.startsWith('API Error') ? 'network' : 'server';
}
