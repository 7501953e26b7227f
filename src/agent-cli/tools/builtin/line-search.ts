import { disposeOnce } from '../../../stream/dispose-once.ts';
import { Worker } from 'node:worker_threads';
import { DuolaneError } from '../../../errors.ts';
import { onAbort } from '../../../stream/abort.ts';

/**
 * The program of the thread: for each text it returns the numbers of the matching lines, at most
 * `max`. It is a string, so that it needs no file and works from source and from the built package.
 */
const THREAD = `
const { parentPort, workerData: { pattern, max } } = require('node:worker_threads');
const wanted = new RegExp(pattern);
parentPort.on('message', (text) => {
  const found = [];
  const lines = text.split('\\n');
  for (let i = 0; i < lines.length && found.length < max; i++) if (wanted.test(lines[i])) found.push(i);
  parentPort.postMessage(found);
});
`;

/**
 * Runs a regular expression on a separate thread. The model writes it, and one that backtracks
 * would block this process, including the handling of a cancel. The thread is terminated when the
 * signal aborts.
 */
export class LineSearch implements AsyncDisposable {
  readonly #worker: Worker;
  readonly #unlisten: () => void;
  #failure: unknown;
  #settle: { resolve(lines: readonly number[]): void; reject(reason: unknown): void } | undefined;

  constructor(pattern: RegExp, max: number, signal: AbortSignal) {
    this.#worker = new Worker(THREAD, {
      eval: true,
      workerData: { pattern: pattern.source, max },
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: 128 },
    });
    this.#worker.on('message', (lines: readonly number[]) => {
      const waiting = this.#settle;
      this.#settle = undefined;
      waiting?.resolve(lines);
    });
    this.#worker.on('error', (cause) => {
      this.#fail(
        new DuolaneError('internal', `the search thread failed: ${cause.message}`, { cause }),
      );
    });
    this.#worker.on('exit', () => {
      this.#fail(new DuolaneError('closed', 'the search is closed'));
    });
    this.#unlisten = onAbort(signal, (reason) => {
      this.#fail(reason);
      this.#end();
    });
  }

  /** The numbers of the matching lines, starting at 0. Search one text at a time. */
  async find(text: string): Promise<readonly number[]> {
    if (this.#failure !== undefined) throw this.#failure;
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
      this.#worker.postMessage(text);
    });
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    this.#unlisten();
    this.#fail(new DuolaneError('closed', 'the search is closed'));
    await this.#worker.terminate();
  });

  #end(): void {
    // `asyncDispose` terminates the thread again and reports a failure.
    this.#worker.terminate().catch(() => {});
  }

  #fail(reason: unknown): void {
    this.#failure ??= reason;
    const waiting = this.#settle;
    this.#settle = undefined;
    waiting?.reject(this.#failure);
  }
}
