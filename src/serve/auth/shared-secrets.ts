import { createHash, timingSafeEqual } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';

/** Secrets by the name of who holds them; a single one is for a single owner, named after the scheme. */
export type Secrets = string | Readonly<Record<string, string>>;

/** Keys in a header of their own: `X-API-Key`, or the one that is named. */
export type ApiKeys = Secrets | { readonly header: string; readonly keys: Secrets };

/** One way to show a secret, and who may. */
export interface SecretScheme {
  readonly name: string;
  readonly owners: readonly { readonly owner: string; readonly hash: Buffer }[];
  readonly read: (headers: Headers) => string | undefined;
}

const MAX_OWNER_CHARS = 512;

/** Whether a store can keep the name apart from others: control characters separate what it joins. */
export const isOwner = (name: string): boolean =>
  name !== '' &&
  name.length <= MAX_OWNER_CHARS &&
  // oxlint-disable-next-line no-control-regex
  !/[\u0000-\u001f\u007f]/.test(name);

/** The name; throws `invalid` for one that is not. */
export function checkOwner(name: string): string {
  if (isOwner(name)) return name;
  const shown = JSON.stringify(name.slice(0, 40));
  throw new DuolaneError(
    'invalid',
    `invalid owner ${shown}: expected 1 to ${MAX_OWNER_CHARS} characters without control characters`,
  );
}

/** Throws `invalid` for a secret that is empty. */
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

export const bearerOf = (headers: Headers): string | undefined =>
  /^Bearer (.+)$/i.exec(headers.get('authorization') ?? '')?.[1];

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

/** Who holds the secret that was shown. */
export function ownerOf(headers: Headers, schemes: readonly SecretScheme[]): string | undefined {
  for (const { owners: known, read } of schemes) {
    const given = read(headers);
    if (given === undefined) continue;
    // Hashes are compared, all of them, so that neither length nor place shows in the time it takes.
    const digest = hash(given);
    const found = known.filter(({ hash: secret }) => timingSafeEqual(secret, digest));
    if (found[0]) return found[0].owner;
  }
  return undefined;
}

function owners(name: string, secrets: Secrets | undefined): SecretScheme['owners'] {
  const named = typeof secrets === 'string' ? { [name]: secrets } : (secrets ?? {});
  return Object.entries(named).map(([owner, secret]) => {
    if (secret === '') throw new DuolaneError('invalid', `the ${name} secret of ${owner} is empty`);
    return { owner: checkOwner(owner), hash: hash(secret) };
  });
}

const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
