import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { DuolaneError } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';

const own = randomBytes(32);

/**
 * What a client carries for us and gives back: readable by anyone, made by us alone. With the same
 * secret another instance can read it; without one, only this process. A text made for one kind is
 * none of another.
 */
export class TokenSigner {
  readonly #secret: string | Uint8Array;

  constructor(secret: string | Uint8Array = own) {
    this.#secret = secret;
  }

  sign(kind: string, value: JsonObject): string {
    const payload = Buffer.from(JSON.stringify(value), 'utf8').toString('base64url');
    return `${payload}.${this.#mark(kind, payload).toString('base64url')}`;
  }

  /** Throws `invalid` for what we have not made, with `what` as the name of it. */
  verify(kind: string, text: string, what: string): JsonObject {
    const [payload = '', mark = ''] = text.split('.');
    const [ours, given] = [this.#mark(kind, payload), Buffer.from(mark, 'base64url')];
    if (ours.length !== given.length || !timingSafeEqual(ours, given))
      throw new DuolaneError('invalid', `Unknown ${what}: it was not made here; start again`);
    const value: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8'));
    return isObject(value) ? value : {};
  }

  #mark(kind: string, payload: string): Buffer {
    const mac = createHmac('sha256', this.#secret).update(kind).update('\0').update(payload);
    return mac.digest().subarray(0, 16);
  }
}
