import { DuolaneError } from '../../errors.ts';
import { raceAbort, settledWithin } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Abortable } from '../../stream/types.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import type { SourceChange, ToolSource } from '../types.ts';

/** How long disposing waits for a dial in progress. */
const GRACE_MS = 1_000;

/** Dials a server; called again after the connection was lost. */
export type ConnectSource = (options: Abortable) => Promise<ToolSource & AsyncDisposable>;

/** The listeners of a connection. */
export interface ConnectionEvents {
  /** The server has reported a change. */
  readonly changed?: (change: SourceChange) => void;
  /** The connection was lost; the next `open` dials again. */
  readonly lost?: (reason: DuolaneError) => void;
}

/**
 * A connection to one server that is dialled on first use, once for all concurrent callers. Its
 * `listen` notices a lost connection, which is then closed. A source that is given instead of a
 * function belongs to the caller, and stays open.
 */
export class LazyConnection implements AsyncDisposable {
  readonly #connect: ConnectSource | ToolSource;
  readonly #events: ConnectionEvents;
  readonly #scope = new AbortController();
  #opened: Promise<ToolSource> | undefined;
  #closing: Promise<void> = Promise.resolve();

  constructor(connect: ConnectSource | ToolSource, events: ConnectionEvents = {}) {
    this.#connect = connect;
    this.#events = events;
  }

  /** Whether a connection is open or being dialled. */
  get active(): boolean {
    return this.#opened !== undefined;
  }

  /**
   * Returns the source, after dialling it if necessary. An abort ends this wait only: the dial
   * continues for other callers.
   */
  async open({ signal }: Abortable = {}): Promise<ToolSource> {
    signal?.throwIfAborted();
    if (this.#scope.signal.aborted) throw this.#scope.signal.reason;
    this.#opened ??= this.#dial();
    return raceAbort(this.#opened, signal);
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

  async #close(opening: Promise<ToolSource & Partial<AsyncDisposable>>): Promise<void> {
    if (typeof this.#connect !== 'function') return;
    const closed = async (): Promise<void> => {
      // the dial failed: there is nothing to close
      const opened = await opening.catch(() => undefined);
      await opened?.[Symbol.asyncDispose]?.();
    };
    // A dial that ignores its signal may never end. It is closed when it ends, without a wait.
    if (this.#scope.signal.aborted && !(await settledWithin(opening, GRACE_MS)))
      closed().catch(reportUnexpected);
    else await closed();
  }

  #dial(): Promise<ToolSource> {
    const connect = this.#connect;
    const open = async (): Promise<ToolSource> =>
      typeof connect === 'function' ? connect({ signal: this.#scope.signal }) : connect;
    const dialled = open();
    dialled.then(
      (source) => this.#watch(dialled, source),
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
        // the connection is broken, so an error of closing it is expected
        await this.release().catch(() => {});
        this.#events.lost?.(DuolaneError.from(error, 'network'));
      }
    };
    watching().catch(reportUnexpected);
  }

  #forget(dialled: Promise<unknown>): void {
    if (this.#opened === dialled) this.#opened = undefined;
  }
}
