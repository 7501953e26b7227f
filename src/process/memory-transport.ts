import { ByteQueue } from './byte-queue.ts';
import type { Exit, Transport } from './types.ts';
import { WriteGate } from './write-gate.ts';

/** The opposite side of a `memoryTransport`, in the role of a child process. */
export interface MemoryPeer {
  /** What the host writes; ends when the host ends its input or the peer exits. */
  readonly input: AsyncIterable<Uint8Array>;
  /**
   * Writes to the host's `output`. Returns false if the host is behind. Data after `exit` is
   * dropped.
   */
  write(text: string | Uint8Array): boolean;
  /** Ends the host's `output`, like a process that closes stdout and continues to run. */
  endOutput(): void;
  /**
   * Ends both directions; only the first call counts. Disposing the transport exits with code 0.
   */
  exit(exit?: Partial<Exit>): void;
}

/** How many bytes may wait in each direction before `write` returns false. */
const LIMIT_BYTES = 64 * 1024;

/**
 * Creates a transport without a process: for tests, and for a peer inside this process. It behaves
 * like a child: a write reports when to wait, a write after the end throws `closed`, the exit comes
 * once.
 */
export function memoryTransport(): { readonly transport: Transport; readonly peer: MemoryPeer } {
  const encoder = new TextEncoder();
  const gate = new WriteGate();
  const input = new ByteQueue(LIMIT_BYTES, () => gate.open());
  const output = new ByteQueue(LIMIT_BYTES, () => {});
  let resolveExit: (exit: Exit) => void = () => {};
  const exited = new Promise<Exit>((resolve) => (resolveExit = resolve));

  function endInput(why: string): void {
    gate.close(why);
    input.end();
  }

  function exit(exit: Partial<Exit> = {}): void {
    endInput('the peer has exited and no longer reads');
    output.end();
    resolveExit({ code: 0, stderr: '', ...exit });
  }

  const transport: Transport = {
    output,
    exited,
    write(text) {
      gate.check();
      return input.push(typeof text === 'string' ? encoder.encode(text) : text);
    },
    drained: () => gate.drained(input.full),
    endInput: () => endInput('the input has been ended'),
    async [Symbol.asyncDispose]() {
      exit();
    },
  };
  const peer: MemoryPeer = {
    input,
    write: (text) => output.push(typeof text === 'string' ? encoder.encode(text) : text),
    endOutput: () => output.end(),
    exit,
  };
  return { transport, peer };
}
