import { closeSync, openSync, writeSync } from 'node:fs';
import { DuolaneError } from '../../errors.ts';
import type { Frame } from '../../event/types.ts';
import { Redactor } from './redact-secrets.ts';

/** The first line of a trace file. docs/reference/trace-format.md describes the format. */
interface TraceHeader {
  readonly format: 'duolane-trace';
  readonly version: 1;
  readonly createdAt: number;
  readonly command: string;
  readonly args: readonly string[];
}

/** The CLI whose pipe is traced; secrets of its environment are redacted. */
export interface Traced {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Other values that contain secrets, such as the configurations of servers. */
  readonly secrets?: unknown;
}

/** `writeSync`, or a replacement in a test. */
type Write = (file: number, bytes: Buffer, offset: number) => number;

const BATCH_BYTES = 64 * 1024;

/**
 * Writes a trace file: a header, then one line per frame, secrets redacted. Lines are written in
 * batches, at the latest with the next turn of the event loop, so a killed host loses only the last
 * ones. If the file can no longer be written (a full disk), that is reported once and the trace
 * ends; it never ends the program.
 */
export class TraceWriter implements Disposable {
  readonly #path: string;
  readonly #file: number;
  readonly #redactor: Redactor;
  readonly #onError: (error: DuolaneError) => void;
  readonly #write: Write;
  #text = '';
  #closed = false;
  #scheduled: NodeJS.Immediate | undefined;

  /** Throws `invalid` if the file cannot be written. */
  constructor(
    path: string,
    { command, args, env, secrets }: Traced,
    onError: (error: DuolaneError) => void,
    write: Write = writeSync,
  ) {
    this.#write = write;
    this.#path = path;
    this.#onError = onError;
    this.#redactor = new Redactor(env, secrets);
    const header: TraceHeader = {
      format: 'duolane-trace',
      version: 1,
      createdAt: Date.now(),
      command,
      args: this.#redactor.args(args),
    };
    let file: number | undefined;
    try {
      file = openSync(path, 'w', 0o600);
      this.#file = file;
      this.#writeAll(`${this.#redactor.json(header)}\n`);
    } catch (cause) {
      if (file !== undefined) this.#close();
      const why = `trace "${path}" cannot be written: ${String(cause)}; expected a writable file`;
      throw new DuolaneError('invalid', why, { cause });
    }
  }

  write(frame: Frame): void {
    if (this.#closed) return;
    this.#text += `${this.#encode(frame)}\n`;
    if (this.#text.length >= BATCH_BYTES) this.#flush();
    else this.#scheduled ??= setImmediate(() => this.#flush());
  }

  /** A frame that cannot be encoded becomes a note: a tool server must not end the session. */
  #encode(frame: Frame): string {
    try {
      return this.#redactor.json(frame);
    } catch (cause) {
      // A value of a tool is nested too deeply.
      const data = { type: 'system', subtype: 'noise', host: true, reason: String(cause) };
      return this.#redactor.json({ ...frame, data });
    }
  }

  [Symbol.dispose](): void {
    if (this.#closed) return;
    this.#flush();
    this.#close();
  }

  #flush(): void {
    clearImmediate(this.#scheduled);
    this.#scheduled = undefined;
    const text = this.#text;
    this.#text = '';
    if (text === '' || this.#closed) return;
    try {
      this.#writeAll(text);
    } catch (cause) {
      this.#close();
      const why = `trace "${this.#path}" ends early, it cannot be written: ${String(cause)}`;
      this.#onError(new DuolaneError('internal', why, { cause }));
    }
  }

  #close(): void {
    if (this.#closed) return;
    this.#closed = true;
    try {
      closeSync(this.#file);
    } catch {
      // Some file systems report a failed write again on close; the flush has reported it already.
    }
  }

  /**
   * Writes all bytes. `writeSync` may write only a part, and reports an error with the next part.
   */
  #writeAll(text: string): void {
    const bytes = Buffer.from(text);
    for (let done = 0; done < bytes.length;) done += this.#write(this.#file, bytes, done);
  }
}
