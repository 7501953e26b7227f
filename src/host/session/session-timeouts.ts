import { SilenceTimer, whileAwake } from './silence-timer.ts';

/** The time limits of a session, with their defaults applied. */
export interface TimeoutLimits {
  readonly stall: { readonly afterMs: number; readonly failMs: number } | undefined;
  readonly interruptMs: number;
  readonly readyMs: number;
  readonly exitMs: number;
  /** How long handlers get to clean up when the session is closed. */
  readonly cleanupMs: number;
}

/** The part of a session that its timeouts read and act on. */
export interface Watched {
  /** Whether handlers run. Silence does not count then: a person may be deciding. */
  isServing(): boolean;
  /** Whether work is open. */
  isBusy(): boolean;
  /** Whether every turn has its result. */
  isSettled(): boolean;
  /** Whether the open turns may have ended inside another turn, without a report of the CLI. */
  isDoubtful(): boolean;
  onDoubt(): void;
  onStalled(silentMs: number): void;
  /** Ends a CLI that has finished its work. The session does not fail. */
  endPeer(why: string): void;
  fail(what: string): void;
}

/**
 * Enforces the session's timeouts: the CLI is silent, does not acknowledge an interrupt, does not
 * end its turn after it, or does not exit after the end of its input.
 */
export class SessionTimeouts {
  readonly #limits: TimeoutLimits;
  readonly #session: Watched;
  readonly #stall: SilenceTimer | undefined;
  readonly #exit: SilenceTimer;
  readonly #doubt: SilenceTimer;
  readonly #limited = new Set<() => void>();
  #stalled = false;
  /** The session has ended. An app may still end the input or interrupt, and no timer may start. */
  #over = false;

  constructor(limits: TimeoutLimits, session: Watched) {
    this.#limits = limits;
    this.#session = session;
    const { stall, exitMs } = limits;
    const counts = (): boolean => !session.isServing();
    this.#stall =
      stall &&
      new SilenceTimer(
        stall.afterMs,
        () => counts() && session.isBusy(),
        (silentMs) => this.#onStall(silentMs, stall.failMs),
      );
    this.#exit = new SilenceTimer(exitMs, counts, () => this.#onOverdue());
    this.#doubt = new SilenceTimer(
      exitMs,
      () => counts() && session.isDoubtful(),
      () => session.onDoubt(),
    );
    this.#stall?.start();
  }

  /** The CLI wrote something, or the host sent it a message: all silence starts again. */
  onActivity(): void {
    this.#stalled = false;
    this.#stall?.reset();
    this.#exit.reset();
    this.#doubt.reset();
  }

  /** A result left turns in doubt: they count as merged if the CLI now stays silent. */
  expectTurn(): void {
    if (!this.#over) this.#doubt.start();
  }

  /** Stdin was closed: the CLI must exit. */
  expectExit(): void {
    if (!this.#over) this.#exit.start();
  }

  /** An interrupt was written. Call the returned function when it is acknowledged. */
  expectReceipt(): () => void {
    return this.#within(this.#limits.interruptMs, () =>
      this.failUnresponsive('acknowledge an interrupt'),
    );
  }

  /** The interrupt was acknowledged: the turn must end. */
  expectEnd(isOpen: () => boolean): void {
    this.#within(this.#limits.interruptMs, () => {
      if (isOpen()) this.failUnresponsive('stop its turn after an interrupt');
    });
  }

  /** Stops all timers for good. */
  stop(): void {
    this.#over = true;
    this.#stall?.stop();
    this.#exit.stop();
    this.#doubt.stop();
    for (const cancel of this.#limited) cancel();
    this.#limited.clear();
  }

  #within(ms: number, run: () => void): () => void {
    if (this.#over) return () => {};
    const cancel = whileAwake(ms, () => {
      this.#limited.delete(cancel);
      run();
    });
    this.#limited.add(cancel);
    return () => {
      cancel();
      this.#limited.delete(cancel);
    };
  }

  failUnresponsive(what: string): void {
    this.#session.fail(`did not ${what} within ${this.#limits.interruptMs} ms`);
  }

  #onStall(silentMs: number, failMs: number): void {
    this.#stalled = true;
    this.#session.onStalled(silentMs);
    this.#within(failMs, () => {
      if (!this.#stalled) this.#stall?.start();
      else if (this.#session.isSettled())
        this.#session.endPeer('the agent stayed silent after its last result');
      else this.#session.fail(`was silent for ${silentMs} ms, and after an interrupt`);
    });
  }

  #onOverdue(): void {
    if (this.#session.isBusy()) this.#exit.start();
    else this.#session.endPeer('the agent did not exit at the end of its input');
  }
}
