import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuolaneError, type ErrorCode } from '../errors.ts';
import { Fifo } from './fifo.ts';

/** Each text on disk is preceded by its length in bytes, as a 32-bit number. */
const HEADER = 4;
/** Up to this many bytes, a loop copies faster than `Buffer.copy`. */
const SHORT = 4096;

/** Where a `DiskQueue` writes, and how much. */
export interface SpillOptions {
  readonly directory: string | undefined;
  /** The size of one write, and of one read. */
  readonly batchBytes: number;
  /** The limit on the size of all files together. */
  readonly diskBytes: number;
}

/**
 * A FIFO queue of texts on disk. It collects texts in a batch in memory and writes a full batch
 * synchronously, because a producer that cannot wait would overtake an asynchronous write. It reads
 * asynchronously, one batch at a time, so that draining gigabytes does not block the event loop.
 *
 * A file is private and is unlinked as soon as it is open (where the system allows that), so that a
 * crash leaves no file behind. A file is closed once it is read, while later files are still
 * written, so a queue that never runs empty does not grow.
 */
export class DiskQueue {
  readonly #options: SpillOptions;
  readonly #files = new Fifo<SpillFile>();
  readonly #fileBytes: number;
  #first: SpillFile | undefined; // the file that is read
  #last: SpillFile | undefined; // the file that is written
  #diskBytes = 0; // of all files, including the parts that have been read
  #batch: Buffer | undefined;
  #batched = 0;
  #block: Buffer | undefined; // read from disk and not yet taken
  #start = 0;
  #end = 0;
  #large: Buffer | undefined; // a text that is larger than a block
  #items = 0;
  readonly #closing = new Set<Promise<void>>();

  constructor(options: SpillOptions) {
    this.#options = options;
    // At most eight files, so that the parts that have been read use less than an eighth of the
    // budget.
    this.#fileBytes = Math.ceil(options.diskBytes / 8);
  }

  /** The number of texts in the queue. */
  get items(): number {
    return this.#items;
  }

  /** The bytes that wait in memory: the batch to write, and what was read and not yet taken. */
  get memoryBytes(): number {
    return this.#batched + (this.#end - this.#start) + (this.#large?.length ?? 0);
  }

  /** The number of files that are being closed. */
  get closing(): number {
    return this.#closing.size;
  }

  /** The bytes that are on disk and not yet read. */
  get diskBytes(): number {
    return this.#diskBytes - (this.#first?.read ?? 0);
  }

  /**
   * Adds the text. If it throws, the text is not in the queue, and earlier texts are not affected.
   */
  write(text: string): void {
    const { batchBytes } = this.#options;
    // UTF-8 needs at most three bytes per UTF-16 unit, so the exact size is rarely computed.
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

  /** Same as `write`, for a text that is given as its bytes from `start` to `end`. */
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

  /**
   * Returns the oldest text if it is in memory. Otherwise, while `items` is not 0, call `load`
   * first.
   */
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

  /** Reads more texts from disk, so that `take` returns one. Do not call it concurrently. */
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

  /** Releases memory and disk. Call it only when no `load` is pending. */
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

  /**
   * Makes the batch that was to be written the block that is read, because no text waits on disk.
   */
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

  /**
   * Copies the bytes without decoding them: bytes that are not valid UTF-8 would get longer when
   * they are decoded and encoded again.
   */
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
        `the queue exceeds diskBytes (${diskBytes}): ${this.#diskBytes + bytes.length} bytes wait on disk; read faster or increase diskBytes`,
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

/**
 * Copies short ranges in a loop: `Buffer.copy` allocates a view of the source for each call, which
 * the garbage collector then has to free.
 */
function copy(source: Buffer, start: number, end: number, target: Buffer, at: number): void {
  if (end - start > SHORT) source.copy(target, at, start, end);
  else for (let n = start, to = at; n < end; n++, to++) target[to] = source[n] as number;
}

class SpillFile {
  readonly #fd: number;
  readonly #name: string | undefined; // set if the system could not unlink the open file
  written = 0;
  read = 0;

  constructor(directory: string) {
    const name = join(directory, `duolane-${process.pid}-${randomUUID()}.spill`);
    this.#fd = fs.openSync(name, 'wx+', 0o600);
    try {
      fs.unlinkSync(name);
    } catch {
      // This system cannot unlink an open file; `close` deletes it.
      this.#name = name;
    }
  }

  /** Appends all bytes. If it throws, none of them counts as written. */
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
        throw new DuolaneError(
          'internal',
          'the temporary file of a queue is shorter than the data written to it',
        );
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
  ENOSPC: ['too_large', 'the disk is full; free space, or set directory to another disk'],
  EDQUOT: ['too_large', 'the disk quota is used up; free space, or set directory to another disk'],
  EACCES: ['invalid', 'permission denied; set directory to a writable folder'],
  EPERM: ['invalid', 'permission denied; set directory to a writable folder'],
  EROFS: ['invalid', 'it is read-only; set directory to a writable folder'],
  ENOENT: ['invalid', 'it does not exist; set directory to an existing folder'],
  ENOTDIR: ['invalid', 'it is not a folder; set directory to an existing folder'],
};

function diskError(verb: string, target: string, cause: unknown): DuolaneError {
  const system = (cause as NodeJS.ErrnoException).code ?? 'unknown error';
  const [code, advice] = CODES[system] ?? ['internal', system];
  return new DuolaneError(code, `cannot ${verb} ${target}: ${advice}`, { cause });
}
