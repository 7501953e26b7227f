import { DuolaneError } from '../../errors.ts';
import { onAbort, settledWithin } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Abortable } from '../../stream/types.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import type { SourceChange, ToolSource } from '../types.ts';

/** How long disposing waits for a dial that is under way. */
const GRACE_MS = 1_000;

/** How to reach a server; called again after the connection was lost. */
export type ConnectSource = (options: Abortable) => Promise<ToolSource & AsyncDisposable>;

interface Opened {
  readonly source: ToolSource;
  readonly close: () => Promise<void>;
}

/** What opens a connection for as long as we want it. */
export const dialling =
  (connect: ConnectSource) =>
  async (options: Abortable): Promise<Opened> => {
    const source = await connect(options);
    return { source, close: async () => source[Symbol.asyncDispose]() };
  };

export interface ConnectionEvents {
  /** What the server says has changed. */
  readonly changed?: (change: SourceChange) => void;
  /** The connection has broken; the next `open` dials again. */
  readonly lost?: (reason: DuolaneError) => void;
}

/**
 * One server, dialled when it is needed and by one caller at a time, whoever else waits for it. A
 * connection that breaks is noticed by its `listen` and let go.
 */
export class LazyConnection implements AsyncDisposable {
  readonly #connect: (options: Abortable) => Promise<Opened>;
  readonly #events: ConnectionEvents;
  readonly #scope = new AbortController();
  #opened: Promise<Opened> | undefined;
  #closing: Promise<void> = Promise.resolve();

  constructor(connect: (options: Abortable) => Promise<Opened>, events: ConnectionEvents = {}) {
    this.#connect = connect;
    this.#events = events;
  }

  /** Whether there is a connection, or one is being made. */
  get active(): boolean {
    return this.#opened !== undefined;
  }

  /** An abort ends this wait; the dialling goes on for the others. */
  async open({ signal }: Abortable = {}): Promise<ToolSource> {
    signal?.throwIfAborted();
    if (this.#scope.signal.aborted) throw this.#scope.signal.reason;
    this.#opened ??= this.#dial();
    const opened = this.#opened.then(({ source }) => source);
    if (!signal) return opened;
    let unlisten = (): void => {};
    const aborted = new Promise<never>((_, reject) => (unlisten = onAbort(signal, reject)));
    return Promise.race([opened, aborted]).finally(unlisten);
  }

  /** Closes the connection; the next `open` dials again. */
  async release(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    if (opened) this.#closing = this.#close(opened);
    await this.#closing;
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    this.#scope.abort(new DuolaneError('closed', 'the connection was closed'));
    await this.release();
  }

  async #close(opening: Promise<Opened>): Promise<void> {
    const closed = async (): Promise<void> => {
      const opened = await opening.catch(() => undefined); // it never opened: nothing to close
      await opened?.close();
    };
    // A dial that ignores its signal may never end. It is closed when it does, and not waited for.
    if (this.#scope.signal.aborted && !(await settledWithin(opening, GRACE_MS)))
      closed().catch(reportUnexpected);
    else await closed();
  }

  #dial(): Promise<Opened> {
    const dialled = this.#connect({ signal: this.#scope.signal });
    dialled.then(
      ({ source }) => this.#watch(dialled, source),
      () => this.#forget(dialled),
    );
    return dialled;
  }

  #watch(dialled: Promise<unknown>, source: ToolSource): void {
    const watching = async (): Promise<void> => {
      try {
        for await (const change of source.listen?.({ signal: this.#scope.signal }) ?? [])
          if (change.type !== 'listening') this.#events.changed?.(change);
      } catch (error) {
        if (this.#scope.signal.aborted || this.#opened !== dialled) return;
        await this.release().catch(() => {}); // it broke: that it cannot be closed well is no news
        this.#events.lost?.(DuolaneError.from(error, 'network'));
      }
    };
    watching().catch(reportUnexpected);
  }

  #forget(dialled: Promise<unknown>): void {
    if (this.#opened === dialled) this.#opened = undefined;
  }
}
