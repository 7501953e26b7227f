import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { invalid } from '../../errors.ts';
import { asObject, type JsonObject } from '../../json.ts';

const own = randomBytes(32);

/**
 * Signs data that a client carries for us and returns: anyone can read it, only we can create it.
 * Another replica with the same secret accepts it; without a secret, only this process does. A
 * token of one kind is invalid as another.
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

  /**
   * Returns the data of a token. Throws `invalid` for a token that we did not create; `what` names
   * it in the message.
   */
  verify(kind: string, text: string, what: string): JsonObject {
    const [payload = '', mark = ''] = text.split('.');
    const [ours, given] = [this.#mark(kind, payload), Buffer.from(mark, 'base64url')];
    if (ours.length !== given.length || !timingSafeEqual(ours, given))
      throw invalid(
        `invalid ${what}: expected one that this server created; start again without it`,
      );
    const value: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8'));
    return asObject(value);
  }

  #mark(kind: string, payload: string): Buffer {
    const mac = createHmac('sha256', this.#secret).update(kind).update('\0').update(payload);
    return mac.digest().subarray(0, 16);
  }
}
