import { SilenceTimer, whileAwake } from './silence-timer.ts';

/** The limits of a session, all of them set. */
export interface TimeoutLimits {
  readonly stall: { readonly afterMs: number; readonly failMs: number } | undefined;
  readonly interruptMs: number;
  readonly readyMs: number;
  readonly exitMs: number;
  /** How long handlers get to clean up when the session is closed. */
  readonly cleanupMs: number;
}

/** What the watch sees of a session, and what it does to it. */
export interface Watched {
  /** Handlers run, or a person decides: no silence counts. */
  isServing(): boolean;
  /** Something is awaited. */
  isBusy(): boolean;
  /** Every turn has its result. */
  isSettled(): boolean;
  /** Turns that are open may have ended inside another one, without a word. */
  isDoubtful(): boolean;
  onDoubt(): void;
  onStalled(silentMs: number): void;
  /** Nothing more is expected of the CLI: it goes, and that is no failure. */
  endPeer(why: string): void;
  fail(what: string): void;
}

/** The patience of a session: with a silent CLI, with one that ignores an interrupt, with one that stays. */
export class SessionTimeouts {
  readonly #limits: TimeoutLimits;
  readonly #session: Watched;
  readonly #stall: SilenceTimer | undefined;
  readonly #leaving: SilenceTimer;
  readonly #doubt: SilenceTimer;
  readonly #limited = new Set<() => void>();
  #stalled = false;

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
    this.#leaving = new SilenceTimer(exitMs, counts, () => this.#onOverdue());
    this.#doubt = new SilenceTimer(
      exitMs,
      () => counts() && session.isDoubtful(),
      () => session.onDoubt(),
    );
    this.#stall?.start();
  }

  /** The CLI said something, or was just given something to do. */
  heard(): void {
    this.#stalled = false;
    this.#stall?.reset();
    this.#leaving.reset();
    this.#doubt.reset();
  }

  /** A result came; if it leaves turns in doubt, silence will decide. */
  expectTurn(): void {
    this.#doubt.start();
  }

  /** Stdin was closed: the CLI is expected to leave. */
  expectExit(): void {
    this.#leaving.start();
  }

  /** An interrupt was written; call what this returns when it is acknowledged. */
  expectReceipt(): () => void {
    return this.#within(this.#limits.interruptMs, () =>
      this.failUnresponsive('acknowledge an interrupt'),
    );
  }

  /** It was acknowledged: the turn has to end, too. */
  expectEnd(isOpen: () => boolean): void {
    this.#within(this.#limits.interruptMs, () => {
      if (isOpen()) this.failUnresponsive('stop its turn after an interrupt');
    });
  }

  stop(): void {
    this.#stall?.stop();
    this.#leaving.stop();
    this.#doubt.stop();
    for (const cancel of this.#limited) cancel();
    this.#limited.clear();
  }

  #within(ms: number, run: () => void): () => void {
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
      else this.#session.fail(`said nothing for ${silentMs} ms, nor after an interrupt`);
    });
  }

  #onOverdue(): void {
    if (this.#session.isBusy()) this.#leaving.start();
    else this.#session.endPeer('the agent did not leave at the end of its input');
  }
}
