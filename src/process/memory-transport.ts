import { ByteQueue } from './byte-queue.ts';
import type { Exit, Transport } from './types.ts';
import { WriteGate } from './write-gate.ts';

/** The far end of a `memoryTransport`: what a child process would be. */
export interface MemoryPeer {
  /** What the host wrote; ends when the host ended its input or the peer exited. */
  readonly input: AsyncIterable<Uint8Array>;
  /** To the host's `output`; false: the host is behind. What comes after `exit` is dropped. */
  write(text: string | Uint8Array): boolean;
  /** Ends the host's `output`, as a process does that closes stdout and lives on. */
  endOutput(): void;
  /** Ends everything; the first one counts. Disposing the transport exits with code 0. */
  exit(exit?: Partial<Exit>): void;
}

/** How much may wait in each direction before `write` says so. */
const LIMIT_BYTES = 64 * 1024;

/**
 * A transport without a process: for tests, and for a peer that lives in this process. It promises
 * what a child does: writes that say when to wait, `closed` after the end, an exit told once.
 */
export function memoryTransport(): { readonly transport: Transport; readonly peer: MemoryPeer } {
  const encoder = new TextEncoder();
  const gate = new WriteGate();
  const input = new ByteQueue(LIMIT_BYTES, () => gate.open());
  const output = new ByteQueue(LIMIT_BYTES, () => {});
  let tell: (exit: Exit) => void = () => {};
  const exited = new Promise<Exit>((resolve) => (tell = resolve));

  function endInput(why: string): void {
    gate.close(why);
    input.end();
  }

  function exit(exit: Partial<Exit> = {}): void {
    endInput('the peer has exited and reads no more');
    output.end();
    tell({ code: 0, stderr: '', ...exit });
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
