import { finished, type Readable, type Writable } from 'node:stream';
import { DuolaneError } from '../errors.ts';
import { reportUnexpected } from '../stream/report-unexpected.ts';
import { ByteQueue } from './byte-queue.ts';
import { closeWhenSilent } from './close-when-silent.ts';
import type { Transport } from './types.ts';
import { WriteGate } from './write-gate.ts';

/** How many bytes of output may wait for the reader before the pipe of the child is paused. */
const OUTPUT_BYTES = 1024 * 1024;

const NOT_READ = 'the process no longer reads its input';

/** The stdin and stdout of a child process as the two directions of a transport. */
export class ChildPipes implements Pick<Transport, 'output' | 'write' | 'drained' | 'endInput'> {
  readonly output: ByteQueue;
  readonly #stdin: Writable;
  readonly #stdout: Readable;
  readonly #gate = new WriteGate();
  #bytesRead = 0;
  #discards = false;

  constructor({ stdin, stdout }: { readonly stdin: Writable; readonly stdout: Readable }) {
    this.#stdin = stdin;
    this.#stdout = stdout;
    this.output = new ByteQueue(OUTPUT_BYTES, () => stdout.resume());
    stdin.on('error', (error) => this.#gate.close(NOT_READ, error));
    stdin.on('close', () => this.#gate.close(NOT_READ));
    stdin.on('drain', () => this.#gate.open());
    stdout.on('data', (chunk: Uint8Array | string) => this.#receive(chunk));
    // A broken pipe ends the output like end of file: the exit of the process gives the reason.
    finished(stdout, { writable: false }, () => this.output.end());
  }

  write(text: string | Uint8Array, onLost?: (reason: Error) => void): boolean {
    this.#gate.check();
    return this.#stdin.write(text, onLost && ((error) => error && onLost(lostError(error))));
  }

  drained(): Promise<void> {
    return this.#gate.drained(this.#stdin.writableNeedDrain);
  }

  endInput(): void {
    this.#gate.close('the input of the process has been ended');
    this.#stdin.end();
  }

  /**
   * Closes both pipes after the exit of the process. The output that it wrote before is still read;
   * a descendant that holds stdout open does not keep it open for longer.
   */
  closeAfterExit(): void {
    this.#gate.close('the process has exited and no longer reads');
    closeWhenSilent(
      this.#stdout,
      () => this.#bytesRead,
      () => this.output.full,
    );
  }

  /**
   * Drops output that waits for a reader, from now on and whenever the queue is full. Call it when
   * the transport is disposed: a pipe without a reader must not block the last writes of the
   * process.
   */
  discardUnread(): void {
    this.#discards = true;
    if (this.output.full) this.#discard();
  }

  /** Ends the output immediately, for a process that never started or cannot be ended. */
  destroyOutput(): void {
    this.#stdout.destroy();
    this.output.end();
  }

  #receive(chunk: Uint8Array | string): void {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
    this.#bytesRead += bytes.length;
    if (this.output.push(bytes)) return;
    if (this.#discards) this.#discard();
    else this.#stdout.pause();
  }

  #discard(): void {
    this.output.return().catch(reportUnexpected);
  }
}

const lostError = (cause: Error): DuolaneError => new DuolaneError('closed', NOT_READ, { cause });
