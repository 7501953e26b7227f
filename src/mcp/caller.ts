import { createHmac, randomBytes } from 'node:crypto';
import type { JsonObject } from '../json.ts';

/** Where a client that serves several callers says for which of them a request is. */
export const CALLER = 'duolane/caller';

/** The longest name of a caller that is read. */
const MAX_CHARS = 64;

const SECRET = randomBytes(32);

/** A caller's name for the next server: the same for each of its requests, and it says nothing else. */
export const pseudonym = (caller: string): string =>
  createHmac('sha256', SECRET).update(caller).digest('base64url').slice(0, 22);

/** The name that a client gives to one of its callers, if it is one that we read. */
export const callerName = (named: unknown): string | undefined =>
  typeof named === 'string' && named !== '' && named.length <= MAX_CHARS ? named : undefined;

/**
 * Who has used one connection to a server. As long as that is one caller, what the server says
 * without naming a request can only be for that one.
 */
export class Callers {
  readonly #singleUser: boolean;
  #first: { readonly caller: string | undefined } | undefined;
  #several = false;

  constructor(singleUser: boolean) {
    this.#singleUser = singleUser;
  }

  /** Whether there has been more than one, now or earlier. */
  get several(): boolean {
    return this.#several;
  }

  /** Call before each request; the metadata to send with it. */
  enter(caller: string | undefined): JsonObject {
    this.#first ??= { caller };
    if (this.#first.caller !== caller && !this.#singleUser) this.#several = true;
    // The only caller needs no name, and servers of others need not know that there are several.
    return this.#several && caller !== undefined ? { [CALLER]: pseudonym(caller) } : {};
  }
}
