import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuolaneError, type ErrorCode } from '../errors.ts';
import { Fifo } from './fifo.ts';

/** Each text on disk stands behind its length in bytes. */
const HEADER = 4;
const SHORT = 4096;

export interface SpillOptions {
  readonly directory: string | undefined;
  /** The size of a write, and of a read. */
  readonly batchBytes: number;
  /** What all files together may take. */
  readonly diskBytes: number;
}

/**
 * Texts in order, on disk. They are gathered to batches in memory; a full batch is written at once
 * and synchronously, because a caller that cannot wait would outrun a write that does. Reading is
 * asynchronous, a batch at a time, so a reader that drains gigabytes lets others run in between.
 *
 * A file is private, and has no name from the moment it is open (where the system allows that), so
 * nothing is left of it when the process dies. A file that has been read is given back, also while
 * others are still written: a queue that never runs empty does not grow.
 */
export class DiskQueue {
  readonly #options: SpillOptions;
  readonly #files = new Fifo<SpillFile>();
  readonly #fileBytes: number;
  #first: SpillFile | undefined; // the one that is read
  #last: SpillFile | undefined; // the one that is written
  #diskBytes = 0; // all files, with what has been read of them
  #batch: Buffer | undefined;
  #batched = 0;
  #block: Buffer | undefined; // what was read and not yet taken
  #start = 0;
  #end = 0;
  #large: Buffer | undefined; // a text bigger than a block
  #items = 0;
  readonly #closing = new Set<Promise<void>>();

  constructor(options: SpillOptions) {
    this.#options = options;
    // Eight files at most, and less than an eighth of the budget for what has been read.
    this.#fileBytes = Math.ceil(options.diskBytes / 8);
  }

  get items(): number {
    return this.#items;
  }

  get memoryBytes(): number {
    return this.#batched + (this.#end - this.#start) + (this.#large?.length ?? 0);
  }

  /** Files that are being closed. */
  get closing(): number {
    return this.#closing.size;
  }

  /** On disk and not yet read. */
  get diskBytes(): number {
    return this.#diskBytes - (this.#first?.read ?? 0);
  }

  /** Takes the text, or throws and has not taken it; those before it are safe either way. */
  write(text: string): void {
    const { batchBytes } = this.#options;
    // Three bytes for each unit is the most that UTF-8 needs: the exact count is rarely wanted.
    if (HEADER + text.length * 3 > batchBytes - this.#batched) {
      const size = HEADER + Buffer.byteLength(text);
      if (size > batchBytes - this.#batched) this.#flush();
      if (size > batchBytes) return this.#writeLarge(text, size);
    }
    const batch = (this.#batch ??= Buffer.allocUnsafeSlow(batchBytes));
    const length = batch.write(text, this.#batched + HEADER);
    batch.writeUInt32LE(length, this.#batched);
    this.#batched += HEADER + length;
    this.#items++;
  }

  /** `write` for a text that is given as its bytes, from `start` to `end`. */
  writeBytes(bytes: Buffer, start: number, end: number): void {
    const { batchBytes } = this.#options;
    const size = HEADER + end - start;
    if (size > batchBytes - this.#batched) this.#flush();
    const batch = (this.#batch ??= Buffer.allocUnsafeSlow(batchBytes));
    if (size > batchBytes) return this.#writeLargeBytes(bytes.subarray(start, end));
    copy(bytes, start, end, batch, this.#batched + HEADER);
    batch.writeUInt32LE(end - start, this.#batched);
    this.#batched += size;
    this.#items++;
  }

  /** The oldest text, if it is in memory; otherwise, while there are `items`, call `load`. */
  take(): string | undefined {
    if (this.#items === 0) return undefined;
    if (this.#large) {
      const text = this.#large.toString('utf8', HEADER);
      this.#large = undefined;
      return this.#taken(text);
    }
    if (this.#start === this.#end && !this.#first) this.#swap();
    const size = this.#nextSize();
    if (size === undefined || size > this.#end - this.#start) return undefined;
    const text = this.#block?.toString('utf8', this.#start + HEADER, this.#start + size) ?? '';
    this.#start += size;
    return this.#taken(text);
  }

  /** Reads on from the disk, so that `take` has something. One call at a time. */
  async load(): Promise<void> {
    const file = this.#first;
    if (!file) return;
    const block = (this.#block ??= Buffer.allocUnsafeSlow(this.#options.batchBytes));
    block.copyWithin(0, this.#start, this.#end);
    this.#end -= this.#start;
    this.#start = 0;
    const size = this.#nextSize();
    if (size !== undefined && size > block.length) {
      const large = Buffer.allocUnsafeSlow(size);
      const copied = block.copy(large, 0, 0, this.#end);
      this.#end = 0;
      await file.readInto(large, copied);
      this.#large = large;
    } else {
      const free = block.subarray(this.#end);
      const wanted = Math.min(free.length, file.written - file.read);
      await file.readInto(free.subarray(0, wanted), 0);
      this.#end += wanted;
    }
    if (file.read === file.written) this.#nextFile(file);
  }

  /** Gives back memory and disk; a `load` that is under way must have ended. */
  async close(): Promise<void> {
    this.#items = this.#batched = this.#start = this.#end = 0;
    this.#batch = this.#block = this.#large = undefined;
    for (let file = this.#first; file; file = this.#files.shift()) this.#close(file);
    this.#first = this.#last = undefined;
    this.#diskBytes = 0;
    await Promise.all(this.#closing);
  }

  #taken(text: string): string {
    this.#items--;
    return text;
  }

  #nextSize(): number | undefined {
    if (this.#end - this.#start < HEADER) return undefined;
    return HEADER + (this.#block?.readUInt32LE(this.#start) ?? 0);
  }

  /** Nothing waits on disk: what was gathered to be written is read without the detour. */
  #swap(): void {
    [this.#block, this.#batch] = [this.#batch, this.#block];
    this.#start = 0;
    this.#end = this.#batched;
    this.#batched = 0;
  }

  #flush(): void {
    if (!this.#batch || this.#batched === 0) return;
    this.#append(this.#batch.subarray(0, this.#batched));
    this.#batched = 0;
  }

  #writeLarge(text: string, size: number): void {
    const bytes = Buffer.allocUnsafeSlow(size);
    bytes.writeUInt32LE(size - HEADER, 0);
    bytes.write(text, HEADER);
    this.#append(bytes);
    this.#items++;
  }

  /** Byte by byte: what is no UTF-8 would be longer once it was decoded and encoded again. */
  #writeLargeBytes(given: Buffer): void {
    const bytes = Buffer.allocUnsafeSlow(HEADER + given.length);
    bytes.writeUInt32LE(given.length, 0);
    given.copy(bytes, HEADER);
    this.#append(bytes);
    this.#items++;
  }

  #close(file: SpillFile): void {
    const closing = file.close().finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }

  #append(bytes: Buffer): void {
    const { directory = tmpdir(), diskBytes } = this.#options;
    if (this.#diskBytes + bytes.length > diskBytes) {
      throw new DuolaneError(
        'too_large',
        `the reader is too far behind: ${this.#diskBytes} bytes wait on disk and diskBytes is ${diskBytes}; read faster, or raise diskBytes`,
      );
    }
    try {
      if (!this.#last || this.#last.written >= this.#fileBytes) {
        const file = new SpillFile(directory);
        if (this.#first) this.#files.push(file);
        else this.#first = file;
        this.#last = file;
      }
      this.#last.append(bytes);
    } catch (cause) {
      throw diskError('write to', directory, cause);
    }
    this.#diskBytes += bytes.length;
  }

  #nextFile(file: SpillFile): void {
    this.#diskBytes -= file.written;
    this.#close(file);
    this.#first = this.#files.shift();
    if (!this.#first) this.#last = undefined;
  }
}

/** By hand where it is short: Node's copy makes a view of each source, which then is to be collected. */
function copy(source: Buffer, start: number, end: number, target: Buffer, at: number): void {
  if (end - start > SHORT) source.copy(target, at, start, end);
  else for (let n = start, to = at; n < end; n++, to++) target[to] = source[n] as number;
}

class SpillFile {
  readonly #fd: number;
  readonly #name: string | undefined; // where the file could not be unlinked at once
  written = 0;
  read = 0;

  constructor(directory: string) {
    const name = join(directory, `duolane-${process.pid}-${randomUUID()}.spill`);
    this.#fd = fs.openSync(name, 'wx+', 0o600);
    try {
      fs.unlinkSync(name);
    } catch {
      // Not deletable while open on this system; it is deleted when it is closed.
      this.#name = name;
    }
  }

  /** All of the bytes, or an error and none of them. */
  append(bytes: Buffer): void {
    let done = 0;
    while (done < bytes.length) {
      done += fs.writeSync(this.#fd, bytes, done, bytes.length - done, this.written + done);
    }
    this.written += done;
  }

  async readInto(target: Buffer, offset: number): Promise<void> {
    for (let at = offset; at < target.length;) {
      const count = await new Promise<number>((resolve, reject) => {
        fs.read(this.#fd, target, at, target.length - at, this.read, (error, bytes) =>
          error ? reject(diskError('read back from', 'its temporary file', error)) : resolve(bytes),
        );
      });
      if (count === 0) {
        throw new DuolaneError('internal', 'the temporary file of a queue is shorter than written');
      }
      at += count;
      this.read += count;
    }
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      fs.close(this.#fd, () => {
        if (this.#name === undefined) resolve();
        else fs.rm(this.#name, { force: true }, () => resolve());
      });
    });
  }
}

const CODES: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  ENOSPC: ['too_large', 'the disk is full; free some of it, or set directory to another disk'],
  EDQUOT: ['too_large', 'the disk quota is used up; free some, or set directory to another disk'],
  EACCES: ['invalid', 'it may not be written; set directory to a folder that may'],
  EPERM: ['invalid', 'it may not be written; set directory to a folder that may'],
  EROFS: ['invalid', 'it is read-only; set directory to a folder that may be written'],
  ENOENT: ['invalid', 'it does not exist; set directory to a folder that does'],
  ENOTDIR: ['invalid', 'it is not a folder; set directory to one'],
};

function diskError(verb: string, place: string, cause: unknown): DuolaneError {
  const system = (cause as NodeJS.ErrnoException).code ?? 'unknown error';
  const [code, advice] = CODES[system] ?? ['internal', system];
  return new DuolaneError(code, `a queue cannot ${verb} ${place}: ${advice}`, { cause });
}
