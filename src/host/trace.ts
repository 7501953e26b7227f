import { closeSync, openSync, writeSync } from 'node:fs';
import { DuolaneError } from '../errors.ts';
import type { Frame } from '../event/types.ts';
import { isObject } from '../json.ts';

/** The first line of a trace file. docs/trace-format.md describes the rest. */
export interface TraceHeader {
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
}

const REDACTED = '[redacted]';
const SECRET_NAME =
  /(?:api[-_]?key|authorization|passw(?:or)?d|secret|cookie|credentials?|(?:access|refresh|id|auth|bearer|session)[-_]?token)$/i;
const SECRET_TEXT =
  /\b(?:sk-[\w-]{8,}|gh[pousr]_\w{16,}|xox[abprs]-[\w-]{10,}|Bearer\s+[\w.~+/-]{8,}=*)/g;
const BATCH_BYTES = 64 * 1024;

/**
 * Takes secrets out of what is written down: members by their name, texts by known patterns, and
 * the values that the environment holds under a secret name, wherever they stand.
 */
export function redactor(env: Readonly<Record<string, string>>): (value: unknown) => string {
  const known = Object.entries(env)
    .filter(([name, value]) => SECRET_NAME.test(name) && value.length >= 8)
    .map(([, value]) => value);
  const cleaned = (text: string): string =>
    known.reduce(
      (rest, secret) => rest.replaceAll(secret, REDACTED),
      text.replace(SECRET_TEXT, REDACTED),
    );
  return (value) =>
    JSON.stringify(value, (name, member: unknown) => {
      if (typeof member === 'string') return SECRET_NAME.test(name) ? REDACTED : cleaned(member);
      return SECRET_NAME.test(name) && isObject(member) ? REDACTED : member;
    });
}

/**
 * A trace file: a header, then each frame as a line, secrets redacted. Lines are written together,
 * at the latest when the event loop turns, so a killed host loses next to nothing.
 */
export class Trace implements Disposable {
  readonly #file: number;
  readonly #redact: (value: unknown) => string;
  #text = '';
  #closed = false;
  #scheduled: NodeJS.Immediate | undefined;

  /** Throws `invalid` if the file cannot be written. */
  constructor(path: string, { command, args, env }: Traced) {
    this.#redact = redactor(env);
    const createdAt = Date.now();
    const header: TraceHeader = { format: 'duolane-trace', version: 1, createdAt, command, args };
    try {
      this.#file = openSync(path, 'w', 0o600);
      writeSync(this.#file, `${this.#redact(header)}\n`);
    } catch (cause) {
      const why = `the trace ${path} cannot be written: ${String(cause)}`;
      throw new DuolaneError('invalid', why, { cause });
    }
  }

  write(frame: Frame): void {
    if (this.#closed) return;
    this.#text += `${this.#redact(frame)}\n`;
    if (this.#text.length >= BATCH_BYTES) this.#flush();
    else this.#scheduled ??= setImmediate(() => this.#flush());
  }

  [Symbol.dispose](): void {
    if (this.#closed) return;
    this.#flush();
    this.#closed = true;
    closeSync(this.#file);
  }

  #flush(): void {
    clearImmediate(this.#scheduled);
    this.#scheduled = undefined;
    if (this.#text !== '') writeSync(this.#file, this.#text);
    this.#text = '';
  }
}
