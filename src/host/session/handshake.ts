import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
import type { ControlLink } from './control-link.ts';
import type { StdinGate } from './stdin-gate.ts';
import { type DeclaredServer, serverFields } from '../launch/initialize-request.ts';
import type { McpBridge } from '../callbacks/mcp-bridge.ts';
import type { ServerReady } from '../types.ts';

export interface HandshakeParts {
  /** The fields of `initialize`. */
  readonly fields: JsonObject;
  readonly bridge: McpBridge;
  /** Throws if what the CLI answered will not do; no message is sent before. */
  readonly check?: (answer: JsonObject) => void;
}

/** `initialize` and what hangs on it: whether messages may be sent, whether every server was listed. */
export class Handshake {
  readonly initialized: Promise<JsonObject>;
  /** Set if messages have to wait for the answer. */
  readonly mayWrite: Promise<void> | undefined;
  readonly #dialogue: ControlLink;
  readonly #parts: HandshakeParts;
  #fields: JsonObject;
  #isDone = false;
  #sending = 0;

  constructor(dialogue: ControlLink, parts: HandshakeParts) {
    this.#dialogue = dialogue;
    this.#parts = parts;
    this.#fields = parts.fields;
    this.initialized = this.again();
    this.initialized.catch(() => {}); // also told by the message lane
    this.mayWrite = parts.check && this.initialized.then(parts.check);
    this.mayWrite?.catch(() => {}); // told to whoever sends
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /**
   * Calls `write` once messages may be written. Stdin stays open until then: the message was taken,
   * also if the end of input comes before it can be written.
   */
  async whenWritable(gate: StdinGate, write: () => void): Promise<void> {
    const id = `send ${++this.#sending}`;
    gate.hold(id, 'a message that waits for initialize');
    try {
      await this.mayWrite;
      write();
    } finally {
      gate.release(id);
    }
  }

  /** The in-process servers were replaced: a later `initialize` declares these. */
  replaceServers(servers: readonly DeclaredServer[]): void {
    const rest = Object.entries(this.#fields).filter(([name]) => !name.startsWith('sdkMcpServer'));
    this.#fields = { ...Object.fromEntries(rest), ...serverFields(servers) };
  }

  /** Asks for the state of the CLI, again; prompts that still wait there are served. */
  async again(): Promise<JsonObject> {
    const { bridge } = this.#parts;
    const { response, envelope } = await this.#dialogue.request('initialize', this.#fields);
    this.#isDone = true;
    const answer = isObject(response) ? response : {};
    bridge.tookManifests(answer['sdk_mcp_manifests_parked']);
    const pending = envelope['pending_permission_requests'];
    if (Array.isArray(pending))
      for (const each of pending) if (isObject(each)) this.#dialogue.receive(each);
    return answer;
  }

  async ready(signal: AbortSignal): Promise<readonly ServerReady[]> {
    const { bridge } = this.#parts;
    await orAborted(this.initialized, signal);
    if (bridge.waits || bridge.hasFailed) {
      // A CLI may take a manifest without a word: then only its status tells.
      const asked = this.#dialogue.request('mcp_status', {}, { signal });
      // A CLI that does not know the request has no status; `ready` then waits for the tools.
      const status = await asked.then(({ response }) => response).catch(() => undefined);
      bridge.observe(isObject(status) ? status['mcpServers'] : undefined, { turnBegins: false });
    }
    return bridge.ready(signal);
  }
}

/** What `initialize` answered, unless the signal is first: then an error that says it was not answered. */
export async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  let unlisten = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    unlisten = onAbort(signal, (reason) => {
      const { code, message } = DuolaneError.from(reason);
      reject(
        new DuolaneError(code, `the agent did not answer initialize: ${message}`, {
          cause: reason,
        }),
      );
    });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    unlisten();
  }
}
