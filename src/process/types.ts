/**
 * A peer behind a byte pipe: a child process by default, an in-memory pair in tests, or any other
 * implementation. It knows nothing about prompts, lanes or JSON.
 */
export interface Transport extends AsyncDisposable {
  /**
   * The bytes that the peer writes, for one reader. Ends at end of file and never throws: see
   * `exited`. A slow reader blocks the peer; breaking out of the loop discards the rest.
   */
  readonly output: AsyncIterable<Uint8Array>;
  /**
   * Frees the memory of a chunk of `output` immediately instead of at the next garbage collection.
   * Optional for readers, and only allowed if the reader keeps nothing of the chunk.
   */
  release?(chunk: Uint8Array): void;
  /**
   * Accepts text or bytes immediately. Returns false if the pipe is full: await `drained()` before
   * the next write. Throws `closed` if the peer no longer reads. If the pipe breaks during this
   * write, `onLost` is called later.
   */
  write(text: string | Uint8Array, onLost?: (reason: Error) => void): boolean;
  /** Resolves when the pipe accepts more, rejects with `closed` if it never will. */
  drained(): Promise<void>;
  /** Ends the input: the peer sees end of file. May be called twice. */
  endInput(): void;
  /** How the peer ended, or why it could not be started. Never rejects. */
  readonly exited: Promise<Exit>;
}

/** How a peer ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal?: string;
  /** The last 64 KiB of its stderr. */
  readonly stderr: string;
  /**
   * Why it could not be started: `not_found` or `invalid`; `internal` if the system lacked
   * resources.
   */
  readonly startError?: Error;
}

/** The command, its environment, and how it is ended. */
export interface ProcessOptions {
  /**
   * A path, a name to find on the PATH of `env`, or a script (`.js`, `.mjs`, `.cjs`, `.ts`), which
   * this Node runs.
   */
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd?: string;
  /** The complete environment of the child: it inherits nothing else. */
  readonly env: Readonly<Record<string, string>>;
  /**
   * The name of a variable that gets a random value in the child. Every process that inherits it
   * ends with the child, also a daemon that has left the process tree (Linux).
   */
  readonly markEnv?: string;
  /**
   * If this process is killed, the child is killed before it reads end of file. Costs a further
   * shell of about 2 MB while the child runs.
   */
  readonly holdInput?: boolean;
  /** Time between the end of input and SIGTERM on dispose; 2 s by default. */
  readonly graceMs?: number;
  /** Time between SIGTERM and SIGKILL of the complete tree; 5 s by default. */
  readonly killMs?: number;
  /** Called with decoded stderr as it arrives; must not throw. */
  readonly onStderr?: (text: string) => void;
}

/** A transport whose peer is a child process. */
export interface ProcessTransport extends Transport {
  /** Undefined if the process could not be started. */
  readonly pid: number | undefined;
}
