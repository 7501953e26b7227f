/**
 * A peer behind a byte pipe: a child process by default, an in-memory pair in tests, anything else
 * that fills it in. It knows nothing of prompts, lanes or JSON.
 */
export interface Transport extends AsyncDisposable {
  /**
   * What the peer writes, as it comes; one reader. Ends at end of file, never throws: see `exited`.
   * A reader that is behind holds the peer back; leaving the loop discards the rest.
   */
  readonly output: AsyncIterable<Uint8Array>;
  /**
   * Gives back the memory of a chunk of `output` at once, not when the collector comes round. Only
   * for a reader who keeps nothing of it; nobody has to.
   */
  release?(chunk: Uint8Array): void;
  /**
   * Takes text or bytes at once; false: the pipe is full, await `drained()` before more. Throws
   * `closed` when the peer no longer reads. Where that shows only later, since the pipe breaks under
   * this very write, `onLost` is told.
   */
  write(text: string | Uint8Array, onLost?: (reason: Error) => void): boolean;
  /** Resolves when there is room, rejects with `closed` when there never will be. */
  drained(): Promise<void>;
  /** No more input; the peer sees end of file. Twice is fine. */
  endInput(): void;
  /** How the peer ended; also when it could not be started. Never rejects. */
  readonly exited: Promise<Exit>;
}

export interface Exit {
  readonly code: number | null;
  readonly signal?: string;
  /** The last 64 KiB of its stderr. */
  readonly stderr: string;
  /** Why it could not be started: `not_found` or `invalid`; `internal` if the system had no room for it. */
  readonly startError?: Error;
}

export interface ProcessOptions {
  /** A path, a name to be found on the PATH of `env`, or a script (`.js`, `.mjs`, `.cjs`, `.ts`), which this Node runs. */
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  /** The whole environment of the child: nothing is inherited behind the caller's back. */
  readonly env: Readonly<Record<string, string>>;
  /**
   * A name that is set to a random value for the child. What inherits it ends with the child, also a
   * daemon that has left the process tree (Linux).
   */
  readonly markEnv?: string;
  /** Between end of input and SIGTERM on dispose; 2 s. */
  readonly graceMs?: number;
  /** Between SIGTERM and SIGKILL of the whole tree; 5 s. */
  readonly killMs?: number;
  /** Called with stderr as it comes, decoded; must not throw. */
  readonly onStderr?: (text: string) => void;
}

/** A peer that is a child process. */
export interface ProcessTransport extends Transport {
  /** Undefined when it could not be started. */
  readonly pid: number | undefined;
}
