import { DuolaneError } from '../../errors.ts';
import type { Frame } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import type { Exit } from '../../process/types.ts';
import { settledWithin } from '../../stream/abort.ts';
import type { Abortable } from '../../stream/types.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { type ControlHandler, ControlLink } from '../../wire/control-link.ts';
import { type ControlRequest, isControl } from '../../wire/control-peer.ts';
import type { ToolUse } from './tool-calls.ts';
import { SessionTracker } from './session-tracker.ts';
import { judgeExit } from './exit-verdict.ts';
import { brokenTransport, closedInput, unansweredError, undelivered } from './peer-error.ts';
import { Handshake } from './handshake.ts';
import { userFrame } from '../frames/host-messages.ts';
import type { McpServerConfig } from '../options/options.ts';
import { refuseLateRequest, releaseParts, type SessionParts } from './session-parts.ts';
import type { PermissionDecision } from '../sdk-types/permission-types.ts';
import { PipeReader } from '../frames/pipe-reader.ts';
import { relayMessage } from './relay-message.ts';
import { isUpkeep } from './server-upkeep.ts';
import { replaceServers } from '../options/mcp-servers-option.ts';
import { lastInterruptedTurn, type TurnTracker } from './turn-tracker.ts';
import type { InterruptReceipt, ServerReady, Session } from '../types.ts';
import type { FrameIterator } from '../frames/frame-iterator.ts';
import { SessionTimeouts } from './session-timeouts.ts';
import { PipeWriter } from '../frames/pipe-writer.ts';

/** How long to wait, after the pipe broke, for the exit: it explains more than the pipe. */
const BROKEN_MS = 1000;

/**
 * One agent CLI process. It connects the pure state machines (control protocol, turns, gate) to the
 * pipe, and the frame queue to its reader.
 */
export class AgentSession implements Session {
  readonly done: Session['done'];
  readonly initialized: Promise<JsonObject>;
  readonly decisions: PermissionDecision[] = [];
  readonly #parts: SessionParts;
  readonly #tracker: SessionTracker;
  readonly #reader: PipeReader;
  readonly #writer: PipeWriter;
  readonly #link: ControlLink;
  readonly #timeouts: SessionTimeouts;
  readonly #handshake: Handshake;
  readonly #closing = new AbortController();
  readonly #handle: ControlHandler = (request, call) =>
    this.#writer.ended || this.closing.aborted
      ? refuseLateRequest(this.#parts, request, call)
      : this.#parts.handle(request, call);
  #lost = 0;
  #failure: DuolaneError | undefined;
  /** The error of a message that was not delivered. It fails the session if no other error does. */
  #undelivered: DuolaneError | undefined;
  #disposing: Promise<void> | undefined;
  #released: Promise<unknown> | undefined;
  /** Rejects `done` although the transport's output never ends. */
  #breakOff: (error: DuolaneError) => void = () => {};

  constructor(parts: SessionParts) {
    this.#parts = parts;
    const { transport, limits } = parts;
    this.#link = new ControlLink({
      side: 'host',
      write: (frame) => this.#writer.push(frame),
      handle: this.#handle,
      onLost: (request, frame) => this.#reportLost(frame, 'stdin of the agent is closed', request),
      onIgnored: (why, frame, unanswerable) =>
        parts.logger[unanswerable ? 'warn' : 'debug']('control frame ignored', { why, frame }),
      onPendingChange: () => this.#closeIfIdle(),
    });
    this.#tracker = new SessionTracker({
      ...parts,
      requests: this.#link,
      onNamed: () => void (this.#reader.maySkim = true),
      onSettled: () => this.#closeIfIdle(),
      onDoubt: () => this.#timeouts.expectTurn(),
    });
    this.#writer = new PipeWriter(transport, {
      onWritten: (frame) => this.#written(frame),
      onLost: (frames, reason) => this.#unwritten(frames, reason),
      onEnded: () => parts.lanes.note('out', 'input_ended'),
    });
    this.#reader = new PipeReader({
      lanes: parts.lanes,
      maxLineBytes: parts.maxLineBytes,
      onControl: (frame) => this.#link.receive(frame),
      onMessage: (frame, line, at) => this.#tracker.take(frame, line, at),
    });
    this.#timeouts = new SessionTimeouts(limits, {
      isServing: () => this.#link.serving > 0,
      isBusy: () => this.#tracker.gate.busy,
      isSettled: () => this.#tracker.turns.settled,
      isDoubtful: () => this.#tracker.turns.doubtful,
      onDoubt: () => this.#tracker.assumeMerged(),
      onStalled: (silentMs) => this.#stalled(silentMs),
      endPeer: (why) => this.#endPeer(why),
      fail: (what) => this.#fail(what),
    });
    this.#handshake = new Handshake(this.#link, parts);
    this.initialized = this.#handshake.initialized;
    this.initialized.catch((error: unknown) => this.#refused(error));
    const broken = new Promise<never>((_, reject) => (this.#breakOff = reject));
    this.done = Promise.race([this.#read(), broken]);
    this.done.catch(() => {}); // callers need not observe it
  }

  get id(): string {
    return this.#tracker.id;
  }

  get calls(): readonly ToolUse[] {
    return this.#tracker.calls.all;
  }

  get holding(): readonly string[] {
    return this.#tracker.gate.holding;
  }

  /** Aborts as soon as the session closes or ends. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** How the last turn ended, and whether a turn is still open. */
  get turns(): Pick<TurnTracker, 'last' | 'settled' | 'open'> {
    return this.#tracker.turns;
  }

  async ready({ signal }: Abortable = {}): Promise<{ readonly servers: readonly ServerReady[] }> {
    const limit = AbortSignal.timeout(this.#parts.limits.readyMs);
    const scope = AbortSignal.any([limit, this.closing, ...(signal ? [signal] : [])]);
    return { servers: await this.#handshake.ready(scope) };
  }

  async send(prompt: JsonObject | string): Promise<void> {
    if (this.#tracker.gate.inputEnded || this.closing.aborted) throw closedInput();
    const message = userFrame(prompt, this.#parts);
    const write = (): void => {
      if (this.#writer.ended || this.closing.aborted) throw closedInput();
      this.#writer.push(message);
      this.#tracker.turns.send(message.uuid);
      this.#timeouts.onActivity();
    };
    if (!this.#handshake.mayWrite) write();
    else
      await this.#handshake
        .whenWritable(this.#tracker.gate, write)
        .finally(() => this.#closeIfIdle());
    await this.#writer.room().catch((error: unknown) => this.#explain(error));
  }

  frames(): AsyncIterable<Frame> {
    return this.#parts.lanes.frames();
  }

  messages(): AsyncIterable<JsonObject> {
    return this.#parts.lanes.messages();
  }

  /** The messages that `select` maps to a value. */
  selectMessages<T>(select: (message: JsonObject) => T | undefined): FrameIterator<T> {
    return this.#parts.lanes.selectMessages(select);
  }

  response(): AsyncIterable<JsonObject> {
    return this.#parts.lanes.response();
  }

  async request(subtype: string, fields?: JsonObject, options?: Abortable): Promise<unknown> {
    return this.#link.request({ ...fields, subtype }, options);
  }

  /** Sends a message of an in-process server without waiting for its acknowledgement. */
  relay(server: string, message: JsonObject): Promise<void> {
    return relayMessage(this.#link, this.#writer, this.#parts.logger, server, message);
  }

  async interrupt({
    cancelQueued = false,
  }: { readonly cancelQueued?: boolean } = {}): Promise<InterruptReceipt> {
    const open = this.#tracker.turns.snapshot();
    const acknowledged = this.#timeouts.expectReceipt();
    try {
      const fields = cancelQueued ? { cancel_queued: true } : {};
      const receipt = ((await this.request('interrupt', fields)) ?? {}) as InterruptReceipt;
      const turn = lastInterruptedTurn(open, receipt);
      this.#parts.lanes.skipTurn(turn);
      this.#timeouts.expectEnd(() => this.#tracker.turns.isOpen(turn));
      return receipt;
    } finally {
      acknowledged();
    }
  }

  /** Sends `mcp_set_servers` after the bridge has the new servers: the CLI connects immediately. */
  async setServers(servers: Readonly<Record<string, McpServerConfig>>): Promise<JsonObject> {
    const { fields, declared } = await replaceServers(this.#parts.bridge, servers);
    this.#handshake.replaceServers(declared);
    return ((await this.request('mcp_set_servers', fields)) ?? {}) as JsonObject;
  }

  /** Sends `initialize` again; permission requests that are still open are handled. */
  reinitialize(): Promise<JsonObject> {
    return this.#handshake.again();
  }

  endInput({ force = false }: { readonly force?: boolean } = {}): void {
    this.#tracker.gate.endInput();
    if (force || this.#parts.oneshot) this.#closeInput('stdin was closed early by request');
    else this.#closeIfIdle();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return (this.#disposing ??= this.#dispose());
  }

  // The order: no more input, then handlers are aborted and awaited, then the transport is closed.
  async #dispose(): Promise<void> {
    const { transport, limits, lanes } = this.#parts;
    const reason = new DuolaneError('closed', 'the session was closed');
    this.#closing.abort(reason);
    this.#tracker.gate.endInput();
    if (this.#tracker.turns.open > 0 && !this.#writer.ended)
      // The CLI may be gone already; the session ends in any case.
      this.#link.exchange({ subtype: 'interrupt' }, { hold: false }).catch(() => {});
    this.#writer.flush();
    this.#link.closeWrite(reason, { abandon: true });
    await this.#link.idle(limits.cleanupMs);
    this.#writer.end();
    try {
      await transport[Symbol.asyncDispose]();
    } catch (error) {
      // The output may never end now, so the read loop would leave `done` and the readers waiting.
      const failure = (this.#failure ??= brokenTransport(error));
      this.#breakOff(failure);
      lanes.end(failure);
      throw failure;
    } finally {
      await this.done.catch(() => {}); // callers of `done` get the error
      await this.#released;
      await lanes[Symbol.asyncDispose]();
    }
  }

  async #read(): Promise<{ readonly code: number | null; readonly signal?: string }> {
    const { transport } = this.#parts;
    let exit: Exit;
    try {
      for await (const chunk of transport.output) {
        const now = Date.now();
        this.#timeouts.onActivity();
        if (this.#reader.read(chunk, now)) transport.release?.(chunk);
      }
      this.#reader.end();
      exit = await transport.exited;
    } catch (error) {
      exit = this.#broke(error);
    }
    try {
      return this.#finish(exit);
    } finally {
      this.#released = releaseParts(this.#parts);
    }
  }

  /** Fails the session: the transport threw, which its contract forbids, or reading did. */
  #broke(reason: unknown): Exit {
    const { transport, logger } = this.#parts;
    const error = brokenTransport(reason);
    if (this.closing.aborted) logger.warn(error.message);
    else this.#failure ??= error;
    this.#ending(Promise.resolve().then(() => transport[Symbol.asyncDispose]()));
    return { code: null, stderr: '' };
  }

  #written(frame: JsonObject): void {
    if (isControl(frame)) this.#parts.lanes.control('out', frame, Date.now());
    else this.#parts.lanes.sent(frame, Date.now());
  }

  #unwritten(frames: readonly JsonObject[], reason: DuolaneError): void {
    this.#link.closeWrite(reason);
    for (const frame of frames) {
      if (frame['type'] === 'control_response') this.#reportLost(frame, reason.message);
      // A broken pipe usually means that the CLI exits, and its exit gives a better error.
      else if (frame['type'] === 'control_request')
        this.#soon()
          .then(() => this.#link.unwritten(frame, reason))
          .catch(reportUnexpected);
      else this.#undeliveredMessage(frame, reason);
    }
  }

  /** Ends the turn of a message that was not delivered, and the input: the CLI should exit. */
  #undeliveredMessage(frame: JsonObject, reason: DuolaneError): void {
    if (this.closing.aborted) return;
    this.#undelivered ??= undelivered(reason);
    this.#parts.logger.warn(this.#undelivered.message);
    this.#tracker.turns.drop(String(frame['uuid']));
    this.#tracker.gate.endInput();
    this.#closeIfIdle();
  }

  /** Waits briefly for the end of the session; resolves with whether it has ended. */
  #soon = (): Promise<boolean> => settledWithin(this.done, BROKEN_MS);

  async #explain(error: unknown): Promise<never> {
    if (await this.#soon()) await this.done;
    throw error;
  }

  #reportLost(frame: JsonObject, reason: string, request?: ControlRequest): void {
    if (this.closing.aborted) return; // the session is being closed, so responses are not needed
    if (request && isUpkeep(request)) {
      // The CLI connects to a server while it exits; it needs no response.
      this.#parts.logger.debug('ignored a late request of the CLI', { request });
      return;
    }
    this.#lost += 1;
    this.#parts.lanes.lostResponse(frame, reason, request);
  }

  #closeIfIdle(): void {
    if (this.#tracker.gate.mayClose && !this.#writer.ended) this.#closeInput('the run is idle');
  }

  #closeInput(why: string): void {
    this.#writer.end();
    this.#link.closeWrite(new DuolaneError('closed', why));
    this.#timeouts.expectExit();
  }

  #stalled(silentMs: number): void {
    const { holding } = this;
    this.#parts.lanes.pushHostMessage('stalled', { silent_ms: silentMs, holding });
    this.#parts.logger.warn('the agent is silent', { silentMs, holding });
    if (!this.#writer.ended)
      // The timeouts end a CLI that does not respond.
      this.#link.exchange({ subtype: 'interrupt' }, { hold: false }).catch(() => {});
  }

  #fail(what: string): void {
    const open = this.holding.join(', ') || 'nothing';
    this.#failWith(new DuolaneError('timeout', `the agent ${what} (open: ${open}); it was ended`));
  }

  #failWith(error: DuolaneError): void {
    if (this.closing.aborted) return;
    this.#failure ??= error;
    this.#ending(this[Symbol.asyncDispose]());
  }

  /** Fails the session if the CLI refused `initialize` and would run without hooks or servers. */
  #refused(error: unknown): void {
    if (this.closing.aborted) return;
    const { hooks, sdkMcpServers } = this.#parts.initialize;
    this.#parts.logger.warn('the agent refused initialize', { error: String(error) });
    if (hooks !== undefined || sdkMcpServers !== undefined)
      this.#failWith(DuolaneError.from(error));
  }

  /** Ends a CLI that has finished its work. The session does not fail. */
  #endPeer(why: string): void {
    if (this.closing.aborted) return;
    this.#parts.logger.warn(`${why}; ending it`);
    this.#ending(this.#parts.transport[Symbol.asyncDispose]());
  }

  #ending(ended: PromiseLike<void>): void {
    ended.then(undefined, (error: unknown) => {
      this.#parts.logger.error('cannot end the agent', { error: String(error) });
    });
  }

  #finish(exit: Exit): { readonly code: number | null; readonly signal?: string } {
    const { lanes, logger } = this.#parts;
    const { code, signal } = exit;
    const end = signal === undefined ? { code } : { code, signal };
    this.#timeouts.stop();
    lanes.note('in', 'exited', end);
    const lost = this.#lost;
    this.#link.end(unansweredError(exit, lanes.recent, this.closing.aborted));
    let error = this.#failure;
    if (!error && !this.closing.aborted) {
      const { isDone: initialized } = this.#handshake;
      const facts = { exit, lost, turns: this.#tracker.turns, initialized, frames: lanes.recent };
      error = judgeExit(facts, this.#lost, logger) ?? this.#undelivered;
    }
    this.#closing.abort(error ?? new DuolaneError('closed', 'the agent has exited'));
    lanes.end(error);
    if (error) throw error;
    return end;
  }
}
