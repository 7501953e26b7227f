import { createHmac, randomBytes } from 'node:crypto';
import type { JsonObject } from '../../json.ts';
import { CALLER } from './caller-key.ts';

/** The longest caller name that a server accepts; longer names are ignored. */
const MAX_CHARS = 64;

const SECRET = randomBytes(32);

/**
 * Returns the name of a caller for the next server: the same name for each request of the caller,
 * and no information about it. The secret is random per process, so that two servers cannot match
 * the names of two of our processes.
 */
export const pseudonym = (caller: string): string =>
  createHmac('sha256', SECRET).update(caller).digest('base64url').slice(0, 22);

/**
 * Returns the caller name that a client sent, or `undefined` if it is not a text of 1 to 64
 * characters.
 */
export const callerName = (named: unknown): string | undefined =>
  typeof named === 'string' && named !== '' && named.length <= MAX_CHARS ? named : undefined;

/**
 * Records which callers have used one connection to a server. While there is only one, a message of
 * the server that names no request can be delivered: it can only be for that caller.
 */
export class Callers {
  readonly #singleUser: boolean;
  #first: { readonly caller: string | undefined } | undefined;
  #several = false;

  constructor(singleUser: boolean) {
    this.#singleUser = singleUser;
  }

  /** Whether more than one caller has used the connection, now or earlier. */
  get several(): boolean {
    return this.#several;
  }

  /** Call this before each request. Returns the metadata to send with it. */
  enter(caller: string | undefined): JsonObject {
    this.#first ??= { caller };
    if (this.#first.caller !== caller && !this.#singleUser) this.#several = true;
    // A single caller needs no name: the server need not learn that this client is shared.
    return this.#several && caller !== undefined ? { [CALLER]: pseudonym(caller) } : {};
  }
}
