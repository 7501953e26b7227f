import { createPrivateKey, createPublicKey, sign, verify, type KeyObject } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import { asObject, asObjects, isObject, tryParse, type JsonObject } from '../../json.ts';

/** The key that signs a card. Its type decides the algorithm: EC P-256, Ed25519 or RSA. */
export interface CardKey {
  /** A private key, as an object or PEM. */
  readonly key: KeyObject | string;
  readonly kid: string;
  /** The URL of a JSON Web Key Set with the public key. */
  readonly jku?: string;
}

type Algorithm = 'ES256' | 'EdDSA' | 'RS256';

/**
 * Signs the 1.0 form of a card: a JWS (RFC 7515) over its canonical JSON (RFC 8785) without
 * defaults.
 */
export function cardSignature(card: JsonObject, { key, kid, jku }: CardKey): JsonObject {
  const secret = typeof key === 'string' ? createPrivateKey(key) : key;
  const alg = algorithmOf(secret);
  if (alg === undefined)
    throw new DuolaneError(
      'unsupported',
      'cannot sign the card: expected an EC P-256, Ed25519 or RSA key',
    );
  const head = encode(JSON.stringify({ alg, kid, typ: 'JOSE', ...(jku !== undefined && { jku }) }));
  const bytes = Buffer.from(`${head}.${encode(canonicalCard(card))}`);
  const signature = sign(digestOf(alg), bytes, { key: secret, dsaEncoding: 'ieee-p1363' });
  return { protected: head, signature: signature.toString('base64url') };
}

/**
 * Verifies the signatures of a card and resolves with the key id of the first valid one. `keyOf`
 * returns the public key for a key id, and undefined for an expired or revoked key. Throws
 * `unauthorized` if no signature is valid.
 */
export async function verifyCard(
  card: JsonObject,
  keyOf: (
    kid: string,
    jku: string | undefined,
  ) => Promise<KeyObject | string | undefined> | KeyObject | string | undefined,
): Promise<string> {
  const payload = encode(canonicalCard(card));
  for (const { protected: head, signature } of asObjects(card['signatures'])) {
    const { alg, kid, jku, crit } = readHead(head);
    if (typeof kid !== 'string' || typeof signature !== 'string') continue;
    // `crit` lists header members that a verifier must understand, and this one understands none
    // (RFC 7515, 4.1.11).
    if (crit !== undefined) continue;
    const found = await keyOf(kid, typeof jku === 'string' ? jku : undefined);
    if (found === undefined) continue;
    const key = typeof found === 'string' ? createPublicKey(found) : found;
    // The type of the key decides the algorithm. To trust the header instead would allow a forged
    // signature with a weaker algorithm.
    const own = algorithmOf(key);
    if (own === undefined || own !== alg) continue;
    const bytes = Buffer.from(`${String(head)}.${payload}`);
    const given = Buffer.from(signature, 'base64url');
    if (verify(digestOf(own), bytes, { key, dsaEncoding: 'ieee-p1363' }, given)) return kid;
  }
  throw new DuolaneError('unauthorized', 'the agent card has no valid signature; do not trust it');
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

/** A header that cannot be decoded has no key id, so its signature is skipped. */
const readHead = (head: unknown): JsonObject =>
  asObject(tryParse(Buffer.from(String(head), 'base64url').toString('utf8')));

/**
 * The members of a 1.0 card. A client of 1.0 ignores the others of a hybrid, so they are not
 * signed.
 */
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

/**
 * Members that the canonical form keeps even if they are empty or false: the required ones, and
 * those for which protobuf distinguishes "not set" from the default.
 */
const KEPT_DEFAULTS = new Set(
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
        Object.entries(asObject(scheme)).filter(([member]) => SCHEMES.test(member)),
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
    // `params` is free JSON of an extension, where an empty value is not a default.
    if (name === 'params') return [[name, member]];
    const inner = withoutDefaults(member);
    return isDefault(inner) && !KEPT_DEFAULTS.has(name) ? [] : [[name, inner]];
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

/**
 * JSON as in RFC 8785: members sorted by UTF-16 code units, no white space, numbers and strings as
 * ECMAScript writes them.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value ?? null);
  const members = Object.keys(value)
    .filter((name) => value[name] !== undefined)
    .toSorted()
    .map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name])}`);
  return `{${members.join(',')}}`;
}
