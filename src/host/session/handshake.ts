import { DuolaneError } from '../../errors.ts';
import { asObject, asObjects, type JsonObject } from '../../json.ts';
import { raceAbort } from '../../stream/abort.ts';
import type { ControlLink } from '../../wire/control-link.ts';
import type { StdinGate } from './stdin-gate.ts';
import { type DeclaredServer, serverFields } from '../launch/initialize-request.ts';
import type { SessionParts } from './session-parts.ts';
import type { ServerReady } from '../types.ts';

type HandshakeParts = Pick<SessionParts, 'initialize' | 'bridge' | 'checkInitialized'>;

/**
 * The `initialize` exchange, and what depends on it: sending messages, and waiting for the servers.
 */
export class Handshake {
  readonly initialized: Promise<JsonObject>;
  /** Set if messages must wait for the response to `initialize`. */
  readonly mayWrite: Promise<void> | undefined;
  readonly #link: ControlLink;
  readonly #parts: HandshakeParts;
  #fields: JsonObject;
  #isDone = false;

  constructor(link: ControlLink, parts: HandshakeParts) {
    this.#link = link;
    this.#parts = parts;
    this.#fields = parts.initialize;
    this.initialized = this.again();
    this.initialized.catch(() => {}); // the message lane reports the failure as well
    this.mayWrite = parts.checkInitialized && this.initialized.then(parts.checkInitialized);
    this.mayWrite?.catch(() => {}); // `send` rejects with it
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /**
   * Calls `write` as soon as messages may be written. Stdin stays open until then: `send` has
   * accepted the message, and the end of input may come before the message can be written.
   */
  async whenWritable(gate: StdinGate, write: () => void): Promise<void> {
    gate.unsent += 1;
    try {
      await this.mayWrite;
      write();
    } finally {
      gate.unsent -= 1;
    }
  }

  /** Replaces the in-process servers that a later `initialize` declares. */
  replaceServers(servers: readonly DeclaredServer[]): void {
    const rest = Object.entries(this.#fields).filter(([name]) => !name.startsWith('sdkMcpServer'));
    this.#fields = { ...Object.fromEntries(rest), ...serverFields(servers) };
  }

  /**
   * Sends `initialize`, also repeatedly. Permission requests that the CLI still has open are
   * handled.
   */
  async again(): Promise<JsonObject> {
    const { bridge } = this.#parts;
    const { response, envelope } = await this.#link.exchange({
      ...this.#fields,
      subtype: 'initialize',
    });
    this.#isDone = true;
    const info = asObject(response);
    bridge.tookManifests(info['sdk_mcp_manifests_parked']);
    for (const frame of asObjects(envelope['pending_permission_requests']))
      this.#link.receive(frame);
    return info;
  }

  async ready(signal: AbortSignal): Promise<readonly ServerReady[]> {
    const { bridge } = this.#parts;
    await orAborted(this.initialized, signal);
    if (bridge.waits || bridge.hasFailed) {
      // A CLI may accept a manifest without reporting it; then only its status shows that it did. A
      // CLI without this request rejects it, and `ready` waits until the tools are listed.
      const request = this.#link.request({ subtype: 'mcp_status' }, { signal });
      const status = await request.catch(() => undefined); // see above: not every CLI has it
      bridge.observe(asObject(status)['mcpServers'], { turnBegins: false });
    }
    return bridge.ready(signal);
  }
}

/**
 * The response to `initialize`, or an error that names `initialize` when the signal aborts first.
 */
export const orAborted = <T>(initialized: Promise<T>, signal: AbortSignal): Promise<T> =>
  raceAbort(initialized, signal, (reason) => {
    const { code, message } = DuolaneError.from(reason);
    const text = `the agent did not respond to initialize: ${message}`;
    return new DuolaneError(code, text, { cause: reason });
  });
