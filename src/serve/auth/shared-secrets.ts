import { createHash, timingSafeEqual } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';

/** Secrets by owner. A single secret belongs to one owner, named after the scheme (`bearer`). */
export type Secrets = string | Readonly<Record<string, string>>;

/** API keys in the header `X-API-Key`, or in the one that is named. */
export type ApiKeys = Secrets | { readonly header: string; readonly keys: Secrets };

/** One way to send a secret, and the owners that have one. */
export interface SecretScheme {
  readonly name: string;
  readonly owners: readonly { readonly owner: string; readonly hash: Buffer }[];
  readonly read: (headers: Headers) => string | undefined;
}

const MAX_OWNER_CHARS = 512;

/**
 * Whether a name is valid for an owner. Stores join keys with control characters, so it has none.
 */
export const isOwner = (name: string): boolean =>
  name !== '' &&
  name.length <= MAX_OWNER_CHARS &&
  // oxlint-disable-next-line no-control-regex
  !/[\u0000-\u001f\u007f]/.test(name);

/** Returns the name; throws `invalid` if it is not valid for an owner. */
export function checkOwner(name: string): string {
  if (isOwner(name)) return name;
  const shown = JSON.stringify(name.slice(0, 40));
  throw new DuolaneError(
    'invalid',
    `invalid owner ${shown}: expected 1 to ${MAX_OWNER_CHARS} characters without control characters`,
  );
}

/** The schemes that are configured. Throws `invalid` for an empty secret. */
export function secretSchemes(
  bearer: Secrets | undefined,
  apiKey: ApiKeys | undefined,
): readonly SecretScheme[] {
  const { header, keys } = readApiKeys(apiKey);
  const schemes: readonly SecretScheme[] = [
    { name: 'bearer', owners: owners('bearer', bearer), read: bearerOf },
    {
      name: 'apiKey',
      owners: owners('apiKey', keys),
      read: (headers) => headers.get(header) ?? undefined,
    },
  ];
  return schemes.filter((scheme) => scheme.owners.length > 0);
}

/** The token of `Authorization: Bearer <token>`. */
export const bearerOf = (headers: Headers): string | undefined =>
  /^Bearer (.+)$/i.exec(headers.get('authorization') ?? '')?.[1];

/** The header and the keys of the option `apiKey`, in either of its forms. */
export function readApiKeys(given: ApiKeys | undefined): {
  readonly header: string;
  readonly keys?: Secrets;
} {
  if (given === undefined) return { header: 'x-api-key' };
  const named = typeof given === 'object' && 'header' in given && 'keys' in given;
  return named
    ? (given as { header: string; keys: Secrets })
    : { header: 'x-api-key', keys: given as Secrets };
}

/** The owner of the secret in the headers. */
export function ownerOf(headers: Headers, schemes: readonly SecretScheme[]): string | undefined {
  for (const { owners: known, read } of schemes) {
    const given = read(headers);
    if (given === undefined) continue;
    // Compare hashes, and all of them, so that the time reveals neither the length nor the
    // position.
    const digest = hash(given);
    const found = known.filter(({ hash: secret }) => timingSafeEqual(secret, digest));
    if (found[0]) return found[0].owner;
  }
  return undefined;
}

function owners(name: string, secrets: Secrets | undefined): SecretScheme['owners'] {
  const named = typeof secrets === 'string' ? { [name]: secrets } : (secrets ?? {});
  return Object.entries(named).map(([owner, secret]) => {
    if (secret === '')
      throw new DuolaneError(
        'invalid',
        `invalid ${name} secret of "${owner}": expected a text that is not empty`,
      );
    return { owner: checkOwner(owner), hash: hash(secret) };
  });
}

const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
