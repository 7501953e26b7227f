import { isObject, type JsonObject } from '../../json.ts';
import { isSecretVariable } from '../../process/secret-variable.ts';

const REDACTED = '[redacted]';
/** Shorter values are redacted only under their name: elsewhere they may be an ordinary word. */
const KNOWN_CHARS = 8;
const KNOWN = 1000;
/** Longer values are searched for one by one: a regular expression cannot have any length. */
const PATTERN_CHARS = 4000;
const LONG_VALUES = 20;
/** Shorter lines of a secret are not searched for: the last line of a key may equal common text. */
const LINE_CHARS = 24;

/** Names of members and flags whose value is a secret. */
const SECRET_NAME =
  /(?:^token|api[-_]?key|authorization|passw(?:or)?d|secret|cookie|credentials?|private[-_]?key|(?:access|refresh|id|auth|bearer|session|api)[-_]?token)$/i;
/**
 * Names of environment variables, which are less regular: `GITHUB_TOKEN`, `SIGNING_KEY`, `DB_PASS`.
 */
const SECRET_VARIABLE =
  /(?:token|key|pass|passw(?:or)?d|secret|cookie|credentials?|auth|pat|dsn)$/i;
/**
 * Known forms of keys, not inside a word. In JSON a line end before a key is written as `\\n`, so n
 * may precede.
 */
const SECRET_TEXT =
  /(?:(?<!\w)|(?<=\\[bfnrt]))(?:sk-[\w-]{8,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|xox[abprs]-[\w-]{10,}|Bearer\s+[\w.~+/-]{8,}=*|Basic\s+(?=[A-Za-z+/]*[\d+/=])[A-Za-z\d+/]{8,}={0,2})/g;
/** The credentials of a URL, and its parameters with a secret. */
const URL_LOGIN = /(:\/\/)[^\s"/?#@]+@/g;
const URL_SECRET =
  /([?&](?:[\w-]*(?:token|key|secret|password|signature|credential)|sig|auth|code)=)[^\s"&#]+/gi;
/** Headers that never contain a secret. Every other header of a server may be a key. */
const PUBLIC_HEADER =
  /^(?:accept|accept-(?:charset|encoding|language)|cache-control|content-(?:length|type)|mcp-protocol-version|user-agent)$/i;

/**
 * Removes secrets from text that is written to a file. By name: members, headers, variables and
 * flags. By value: a value that was found under such a name is redacted everywhere. By pattern:
 * known forms of keys, and credentials in a URL.
 */
export class Redactor {
  readonly #known = new Set<string>();
  readonly #long = new Set<string>();
  /**
   * Compiled when a text is redacted, not for each value: a tool server may send a thousand values
   * in one message.
   */
  #patterns: readonly RegExp[] | undefined;

  /** `seen`: other values that contain secrets, such as the configurations of servers. */
  constructor(env: Readonly<Record<string, string>>, ...seen: readonly unknown[]) {
    for (const [name, value] of Object.entries(env)) if (isSecret(name, value)) this.#learn(value);
    for (const value of seen) this.json(value);
  }

  /** A value as JSON without its secrets. */
  json(value: unknown): string {
    const text = JSON.stringify(value, this.#replace);
    return text === undefined ? 'null' : this.text(text);
  }

  /** The arguments of a command: JSON arguments are redacted by name, `--token x` by the flag. */
  args(args: readonly string[]): readonly string[] {
    const cleaned = args.map((arg, index) => {
      const [, flag = '', value] = /^--?([\w-]+)=([\s\S]*)$/.exec(arg) ?? [];
      if (value !== undefined && SECRET_NAME.test(flag)) {
        this.#learn(value);
        return `--${flag}=${REDACTED}`;
      }
      const before = /^--?([\w-]+)$/.exec(args[index - 1] ?? '')?.[1] ?? '';
      if (SECRET_NAME.test(before) && !arg.startsWith('-')) {
        this.#learn(arg);
        return REDACTED;
      }
      return value === undefined ? this.#arg(arg) : `--${flag}=${this.#arg(value)}`;
    });
    return cleaned.map((arg) => this.text(arg));
  }

  text(text: string): string {
    let cleaned = text
      .replace(SECRET_TEXT, REDACTED)
      .replace(URL_LOGIN, `$1${REDACTED}@`)
      .replace(URL_SECRET, `$1${REDACTED}`);
    for (const value of this.#long) cleaned = cleaned.replaceAll(value, REDACTED);
    this.#patterns ??= patternsOf(this.#known);
    for (const pattern of this.#patterns) cleaned = cleaned.replace(pattern, REDACTED);
    return cleaned;
  }

  #arg(arg: string): string {
    if (!/^\s*[{[]/.test(arg)) return arg;
    try {
      return this.json(JSON.parse(arg));
    } catch {
      return arg; // not JSON
    }
  }

  readonly #replace = (name: string, member: unknown): unknown => {
    if (typeof member === 'string' && SECRET_NAME.test(name)) return this.#secret(member);
    if (!isObject(member)) return member;
    if (SECRET_NAME.test(name)) return REDACTED;
    if (/headers$/i.test(name)) return this.#members(member, (each) => !PUBLIC_HEADER.test(each));
    if (name === 'env') return this.#members(member, isSecret);
    return member;
  };

  #members(object: JsonObject, isSecret: (name: string, value: string) => boolean): JsonObject {
    return Object.fromEntries(
      Object.entries(object).map(([name, value]) => [
        name,
        typeof value === 'string' && isSecret(name, value) ? this.#secret(value) : value,
      ]),
    );
  }

  #secret(value: string): string {
    this.#learn(value);
    return REDACTED;
  }

  /** Keeps a secret, also without its scheme: the token of `Bearer x` may appear alone later. */
  #learn(value: string): void {
    const bare = /^(?:bearer|basic|token)\s+(\S+)$/i.exec(value)?.[1];
    // Also line by line: a private key may be written with other line ends.
    const lines = value.includes('\n') ? value.split('\n').filter(isLongLine) : [];
    for (const each of [value, ...(bare === undefined ? [] : [bare]), ...lines]) {
      if (each.length < KNOWN_CHARS || each === REDACTED) continue;
      for (const form of [each, JSON.stringify(each).slice(1, -1)]) this.#keep(form);
    }
  }

  #keep(form: string): void {
    if (form.length > PATTERN_CHARS) {
      if (this.#long.size < LONG_VALUES) this.#long.add(form);
    } else if (!this.#known.has(form) && this.#known.size < KNOWN) {
      this.#known.add(form);
      this.#patterns = undefined;
    }
  }
}

/**
 * Whether a variable is a secret. A value of letters only, as in `AUTH_MODE=disabled`, needs a
 * secret name.
 */
const isSecret = (name: string, value: string): boolean =>
  SECRET_VARIABLE.test(name) || (!/^[a-z]+$/i.test(value) && isSecretVariable(name, value));

const isLongLine = (line: string): boolean => line.length >= LINE_CHARS;

/**
 * Patterns of all known values. The longest come first, so that a value that contains another one
 * is redacted completely. Each pattern has a limited length.
 */
function patternsOf(known: ReadonlySet<string>): readonly RegExp[] {
  const groups: string[][] = [];
  let room = 0;
  for (const each of [...known].toSorted((a, b) => b.length - a.length)) {
    if (each.length > room) {
      groups.push([]);
      room = PATTERN_CHARS;
    }
    room -= each.length;
    groups.at(-1)?.push(each.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  }
  return groups.map((parts) => new RegExp(parts.join('|'), 'g'));
}
