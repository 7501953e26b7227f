import { createPrivateKey, createPublicKey, sign, verify, type KeyObject } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';

/** What a card is signed with. The kind of key decides the algorithm: EC P-256, Ed25519 or RSA. */
export interface CardKey {
  /** A private key, as an object or PEM. */
  readonly key: KeyObject | string;
  readonly kid: string;
  /** Where the public key can be fetched. */
  readonly jku?: string;
}

type Algorithm = 'ES256' | 'EdDSA' | 'RS256';

/** The signature (JWS, RFC 7515) of the 1.0 form of a card: over its canonical JSON (RFC 8785), without defaults. */
export function cardSignature(card: JsonObject, { key, kid, jku }: CardKey): JsonObject {
  const secret = typeof key === 'string' ? createPrivateKey(key) : key;
  const alg = algorithmOf(secret);
  if (alg === undefined)
    throw new DuolaneError('unsupported', 'a card is signed with an EC P-256, Ed25519 or RSA key');
  const head = encode(JSON.stringify({ alg, kid, typ: 'JOSE', ...(jku !== undefined && { jku }) }));
  const bytes = Buffer.from(`${head}.${encode(canonicalCard(card))}`);
  const signature = sign(digestOf(alg), bytes, { key: secret, dsaEncoding: 'ieee-p1363' });
  return { protected: head, signature: signature.toString('base64url') };
}

/**
 * Resolves with the key id of the first signature that holds. `keyOf` finds the public key for an id
 * and must give none that is expired or revoked. Throws `unauthorized` when no signature holds.
 */
export async function verifyCard(
  card: JsonObject,
  keyOf: (
    kid: string,
    jku: string | undefined,
  ) => Promise<KeyObject | string | undefined> | KeyObject | string | undefined,
): Promise<string> {
  const signatures = Array.isArray(card['signatures']) ? (card['signatures'] as unknown[]) : [];
  const payload = encode(canonicalCard(card));
  for (const each of signatures) {
    const { protected: head, signature } = isObject(each) ? each : {};
    const { alg, kid, jku, crit } = readHead(head);
    if (typeof kid !== 'string' || typeof signature !== 'string') continue;
    // It says that something must be understood which nobody here does (RFC 7515, 4.1.11).
    if (crit !== undefined) continue;
    const found = await keyOf(kid, typeof jku === 'string' ? jku : undefined);
    if (found === undefined) continue;
    const key = typeof found === 'string' ? createPublicKey(found) : found;
    // The key says which algorithm counts; a header that says otherwise is a forgery.
    const own = algorithmOf(key);
    if (own === undefined || own !== alg) continue;
    const bytes = Buffer.from(`${String(head)}.${payload}`);
    const given = Buffer.from(signature, 'base64url');
    if (verify(digestOf(own), bytes, { key, dsaEncoding: 'ieee-p1363' }, given)) return kid;
  }
  throw new DuolaneError('unauthorized', 'no signature of the agent card holds; do not trust it');
}

function algorithmOf(key: KeyObject): Algorithm | undefined {
  switch (key.asymmetricKeyType) {
    case 'ec':
      return key.asymmetricKeyDetails?.namedCurve === 'prime256v1' ? 'ES256' : undefined;
    case 'ed25519':
      return 'EdDSA';
    case 'rsa':
      return 'RS256';
    default:
      return undefined;
  }
}

const digestOf = (alg: Algorithm): string | null => (alg === 'EdDSA' ? null : 'sha256');

const encode = (text: string): string => Buffer.from(text, 'utf8').toString('base64url');

function readHead(head: unknown): JsonObject {
  try {
    const value: unknown = JSON.parse(Buffer.from(String(head), 'base64url').toString('utf8'));
    return isObject(value) ? value : {};
  } catch {
    // A header that cannot be decoded matches no key, and the signature is refused.
    return {};
  }
}

/** The members of a 1.0 card. What else a hybrid has, a reader of 1.0 never sees, so nobody signs it. */
const MEMBERS = [
  'name',
  'description',
  'supportedInterfaces',
  'provider',
  'version',
  'documentationUrl',
  'capabilities',
  'securitySchemes',
  'securityRequirements',
  'defaultInputModes',
  'defaultOutputModes',
  'skills',
  'iconUrl',
];
const SCHEMES = /SecurityScheme$/;

/** Stay in the canonical form even when empty or false: required members, and those that tell unset from default. */
const STAY = new Set(
  `name description version supportedInterfaces defaultInputModes defaultOutputModes skills
   capabilities id tags url protocolBinding protocolVersion organization uri streaming
   pushNotifications extendedAgentCard documentationUrl iconUrl schemes location scheme`.split(
    /\s+/,
  ),
);

function canonicalCard(card: JsonObject): string {
  const members = Object.fromEntries(
    MEMBERS.filter((name) => name in card).map((name) => [name, card[name]]),
  );
  const schemes = members['securitySchemes'];
  if (isObject(schemes)) {
    const pure = Object.entries(schemes).map(([name, scheme]) => [
      name,
      Object.fromEntries(
        Object.entries(isObject(scheme) ? scheme : {}).filter(([member]) => SCHEMES.test(member)),
      ),
    ]);
    members['securitySchemes'] = Object.fromEntries(pure);
  }
  return canonicalJson(withoutDefaults(members));
}

function withoutDefaults(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutDefaults);
  if (!isObject(value)) return value;
  const kept = Object.entries(value).flatMap(([name, member]) => {
    // Free JSON of an extension: there an empty value means what it says.
    if (name === 'params') return [[name, member]];
    const inner = withoutDefaults(member);
    return isDefault(inner) && !STAY.has(name) ? [] : [[name, inner]];
  });
  return Object.fromEntries(kept);
}

const isDefault = (value: unknown): boolean =>
  value === undefined ||
  value === null ||
  value === '' ||
  value === false ||
  value === 0 ||
  (Array.isArray(value) && value.length === 0);

/** RFC 8785: members sorted by UTF-16 code units, no white space, numbers and strings as ECMAScript writes them. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value ?? null);
  const members = Object.keys(value)
    .filter((name) => value[name] !== undefined)
    .toSorted()
    .map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name])}`);
  return `{${members.join(',')}}`;
}
