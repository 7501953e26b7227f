import { resolve } from 'node:path';
import { DuolaneError, unauthorized, unsupported } from '../../errors.ts';
import type { Frame } from '../../event/types.ts';
import {
  asArray,
  asObject,
  asObjects,
  asString,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';
import { buildEnv } from '../../process/env.ts';
import { spawnProcess } from '../../process/spawn.ts';
import type { Exit, ProcessOptions, ProcessTransport } from '../../process/types.ts';
import { withTimeout } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { ACP_VERSION } from '../../wire/acp-protocol.ts';
import { encodeRpc } from '../../wire/json-rpc.ts';
import { InvalidLine, JsonlDecoder } from '../../wire/jsonl.ts';
import { type RpcCall, RpcLink } from '../../wire/rpc-link.ts';
import { agentError } from './agent-error.ts';
import type { AcpOptions } from './acp-options.ts';
import { withoutSecrets } from './without-secrets.ts';

/** What the owner of a connection gets from it. */
export interface AcpListener {
  readonly handle: (method: string, params: JsonObject, call: RpcCall) => Promise<unknown>;
  /** Called in the order of arrival. Reading goes on when the promise, if any, has settled. */
  readonly onUpdate: (params: JsonObject) => Promise<void> | void;
  /** The next message is read when the promise has settled; it never rejects. */
  readonly onFrame: (frame: Frame) => Promise<void>;
  readonly warn: (message: string, data?: JsonObject) => void;
}

const START_TIMEOUT_MS = 60_000;
/** Bytes that may wait for an agent that does not read its stdin. */
const MAX_UNREAD_BYTES = 64 * 1024 * 1024;
/** The longest line of an agent. */
const MAX_LINE_BYTES = 64 * 1024 * 1024;
const EXCERPT = 500;

/**
 * One process of an ACP agent: its pipes carry JSON-RPC, one message per line. Disposing ends its
 * process tree. If it exits, everything that waits fails with `peer_exited`, the exit code and the
 * end of its stderr.
 */
export class AcpConnection implements AsyncDisposable {
  readonly #command: string;
  readonly #child: ProcessTransport;
  readonly #listener: AcpListener;
  readonly #link: RpcLink;
  readonly #startTimeoutMs: number;
  /** Methods of our open requests, by id, to put responses on the lane of their request. */
  readonly #sent = new Map<unknown, string>();
  readonly #lineBytes: number;
  #unread = 0;
  #isClosing = false;
  #agent: JsonObject = {};

  constructor(command: string, options: AcpOptions, listener: AcpListener) {
    this.#command = command;
    this.#listener = listener;
    this.#startTimeoutMs = options.startTimeoutMs ?? START_TIMEOUT_MS;
    this.#lineBytes = options.maxBytes ?? MAX_LINE_BYTES;
    this.#link = new RpcLink({
      send: (message) => this.#send(message),
      handle: listener.handle,
      // Updates are passed on by `#read`, which waits for the listener.
      onNotification: (method) => {
        if (!method.startsWith('_') && !method.startsWith('$/'))
          listener.warn(`the agent sent the notification "${method}", which is not supported`);
      },
      onIgnored: (why) => listener.warn(`the agent sent ${why}`),
    });
    this.#child = spawnProcess({
      command,
      args: options.args ?? [],
      cwd: resolve(options.cwd ?? '.'),
      env: environmentFor(options),
      markEnv: 'DUOLANE_ACP_AGENT',
      ...omitUndefined<Pick<ProcessOptions, 'graceMs' | 'killMs' | 'onStderr'>>({
        graceMs: options.graceMs,
        killMs: options.killMs,
        onStderr: options.onStderr,
      }),
    });
    this.#read().catch(reportUnexpected);
  }

  /** The response to `initialize`. */
  get agent(): JsonObject {
    return this.#agent;
  }

  /** A capability of the agent, by its path. */
  can(...path: readonly string[]): boolean {
    let at: unknown = this.#agent['agentCapabilities'];
    for (const name of path) at = asObject(at)[name];
    return at !== undefined && at !== null && at !== false;
  }

  /** Negotiates the protocol version, and authenticates if the options say how. */
  async initialize(capabilities: JsonObject, { auth }: AcpOptions): Promise<void> {
    this.#agent = asObject(
      await this.start('initialize', {
        protocolVersion: ACP_VERSION,
        clientCapabilities: capabilities,
        clientInfo: { name: 'duolane', title: 'Duolane', version: '1' },
      }),
    );
    const { protocolVersion } = this.#agent;
    if (protocolVersion !== ACP_VERSION)
      throw unsupported(
        `the agent "${this.#command}" speaks version ${JSON.stringify(protocolVersion)} of the Agent Client Protocol: expected ${ACP_VERSION}; install a version of it that does`,
      );
    if (auth !== undefined) await this.start('authenticate', { methodId: auth });
  }

  /** A request of the start, which must be answered within `startTimeoutMs`. */
  start(method: string, params: JsonObject): Promise<unknown> {
    const ms = this.#startTimeoutMs;
    return withTimeout(this.request(method, params), ms, () => {
      const what = `no response of the agent "${this.#command}"; increase startTimeoutMs if it starts slowly`;
      return new DuolaneError('timeout', `${method} timed out after ${ms} ms: ${what}`);
    });
  }

  /** Sends a request. The error of the agent is converted to one with the fix. */
  async request(method: string, params: JsonObject, signal?: AbortSignal): Promise<unknown> {
    try {
      return await this.#link.request(method, params, signal ? { signal } : {});
    } catch (error) {
      throw agentError(error, method, () => this.#loginAdvice());
    }
  }

  /** Sends a notification. One that cannot be sent is not needed: the agent has exited. */
  notify(method: string, params: JsonObject): void {
    try {
      this.#link.notify(method, params);
    } catch (error) {
      this.#listener.warn(`cannot send ${method} to the agent`, { error: String(error) });
    }
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    this.#isClosing = true;
    this.#link.fail(new DuolaneError('closed', 'the connection to the agent is closed'));
    await this.#child[Symbol.asyncDispose]();
  });

  #loginAdvice(): DuolaneError {
    const offered = asObjects(this.#agent['authMethods']).map(
      ({ id, name }) => `"${asString(id)}" (${asString(name)})`,
    );
    return unauthorized(
      offered.length === 0
        ? `the agent "${this.#command}" requires authentication; log in with its own command, or set its key in env`
        : `the agent "${this.#command}" requires authentication; log in with its own command, or set auth to one of ${offered.join(', ')} and its key in env`,
    );
  }

  async #read(): Promise<void> {
    const decoder = new JsonlDecoder({ maxBytes: this.#lineBytes });
    try {
      for await (const chunk of this.#child.output)
        for (const line of decoder.decode(chunk)) await this.#take(line);
      for (const line of decoder.flush()) await this.#take(line);
      this.#link.fail(exitError(this.#command, await this.#child.exited));
    } catch (error) {
      // Our own failure, such as a full queue: the agent must not go on without a reader.
      this.#link.fail(error);
      await this.#child[Symbol.asyncDispose]();
    }
  }

  async #take(line: JsonObject | InvalidLine): Promise<void> {
    if (line instanceof InvalidLine) {
      // Part of a message that is too long may be the response to a request, so it is a failure.
      if (line.error.code === 'too_large') throw line.error;
      const text = line.text.slice(0, EXCERPT);
      return this.#listener.warn('the agent printed a line to stdout that is not a message', {
        text,
      });
    }
    await this.#frame('in', line);
    if (line['method'] === 'session/update' && line['id'] === undefined)
      await this.#listener.onUpdate(asObject(line['params']));
    else this.#link.receive(line);
  }

  #send(message: JsonObject): void {
    if (this.#isClosing) throw new DuolaneError('closed', 'the connection to the agent is closed');
    const line = `${encodeRpc(message)}\n`;
    if (this.#unread + line.length > MAX_UNREAD_BYTES)
      throw new DuolaneError(
        'too_large',
        `the messages that the agent has not read exceed ${MAX_UNREAD_BYTES} bytes: it does not read its stdin`,
      );
    this.#frame('out', message).catch(reportUnexpected);
    try {
      if (this.#child.write(line, (reason) => this.#lose(reason))) return;
    } catch {
      // The agent has exited, or did not start. `#read` fails all requests with the reason.
      return;
    }
    this.#unread += line.length;
    this.#whenRoom().catch(reportUnexpected);
  }

  async #whenRoom(): Promise<void> {
    // If the agent has exited, its exit says why.
    await Promise.resolve(this.#child.drained()).catch(() => {});
    this.#unread = 0;
  }

  /** The agent no longer reads its stdin, so it will not respond: ends it. */
  #lose(reason: Error): void {
    if (!this.#isClosing)
      this.#listener.warn('the agent closed its stdin', { error: reason.message });
    Promise.resolve(this.#child[Symbol.asyncDispose]()).catch(reportUnexpected);
  }

  #frame(direction: Frame['direction'], data: JsonObject): Promise<void> {
    const { id, method } = data;
    let name = asString(method);
    if (direction === 'out' && method !== undefined && id !== undefined) this.#sent.set(id, name);
    if (direction === 'in' && method === undefined) {
      name = this.#sent.get(id) ?? '';
      this.#sent.delete(id);
    }
    const lane = name === 'session/update' || name === 'session/prompt' ? 'message' : 'control';
    return this.#listener.onFrame({ lane, direction, at: Date.now(), data: withoutSecrets(data) });
  }
}

/** The environment of the agent: `env` replaces ours, unless `inheritEnv` adds it. */
function environmentFor({
  env,
  inheritEnv = env === undefined,
}: AcpOptions): Record<string, string> {
  const allow = inheritEnv === true ? undefined : inheritEnv || [];
  return buildEnv({ ...(allow && { allow }), ...(env && { set: env }) });
}

function exitError(command: string, { code, signal, stderr, startError }: Exit): Error {
  if (startError) return startError;
  const how = signal === undefined ? `code ${code}` : `signal ${signal}`;
  const tail = stderr.trim().slice(-EXCERPT);
  const advice = tail ? `; end of its stderr: ${tail}` : '; it printed nothing to stderr';
  return new DuolaneError('peer_exited', `the agent "${command}" exited with ${how}${advice}`);
}

/** The names in a list of the agent, for a message. */
export const listed = (items: unknown, member = 'id'): string =>
  asArray(items)
    .map((item) => `"${asString(asObject(item)[member])}"`)
    .join(', ') || 'none';
