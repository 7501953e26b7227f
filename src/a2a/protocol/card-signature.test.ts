import { generateKeyPairSync, sign } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { agentCard } from './agent-card.ts';
import { canonicalJson, cardSignature, verifyCard } from './card-signature.ts';

const description = {
  name: 'signed',
  description: 'An agent with a name.',
  securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
};
const offered = { url: 'https://example.com/a', pushNotifications: false, extendedCard: false };
const pure = agentCard(description, { ...offered, shape: '1.0' });
const hybrid = agentCard(description, { ...offered, shape: 'hybrid' });

const PAIRS = {
  ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  EdDSA: generateKeyPairSync('ed25519'),
  RS256: generateKeyPairSync('rsa', { modulusLength: 2048 }),
};

test.each(Object.entries(PAIRS))(
  'a card signed with %s is verified, in either shape',
  async (alg, pair) => {
    const signature = cardSignature(pure, { key: pair.privateKey, kid: 'k1' });
    const head = JSON.parse(
      Buffer.from(String(signature['protected']), 'base64url').toString(),
    ) as object;
    expect(head).toEqual({ alg, kid: 'k1', typ: 'JOSE' });
    for (const card of [pure, hybrid]) {
      const signed = { ...card, signatures: [signature] };
      expect(await verifyCard(signed, (kid) => (kid === 'k1' ? pair.publicKey : undefined))).toBe(
        'k1',
      );
      const forged = { ...signed, name: 'another' };
      await expect(verifyCard(forged, () => pair.publicKey)).rejects.toMatchObject({
        code: 'unauthorized',
      });
    }
  },
);

test('a key of another type, no key and no signature are invalid', async () => {
  const signature = cardSignature(pure, { key: PAIRS.ES256.privateKey, kid: 'k1' });
  const signed = { ...pure, signatures: [{ nonsense: true }, signature] };
  for (const key of [PAIRS.RS256.publicKey, PAIRS.EdDSA.publicKey, undefined])
    await expect(verifyCard(signed, () => key)).rejects.toMatchObject({ code: 'unauthorized' });
  await expect(verifyCard(pure, () => PAIRS.ES256.publicKey)).rejects.toMatchObject({
    code: 'unauthorized',
  });
});

test('a key of another curve cannot sign, and is skipped in verification', async () => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-384' });
  expect(() => cardSignature(pure, { key: privateKey, kid: 'k1' })).toThrow('P-256');
  const signature = cardSignature(pure, { key: PAIRS.ES256.privateKey, kid: 'k2' });
  const signed = { ...pure, signatures: [{ ...signature, protected: head('k1') }, signature] };
  const keyOf = (kid: string) => (kid === 'k1' ? publicKey : PAIRS.ES256.publicKey);
  expect(await verifyCard(signed, keyOf)).toBe('k2');
});

test('a signature with `crit` is invalid', async () => {
  const card = { name: 'a', description: 'b', version: '1' }; // canonical as it is
  const { privateKey, publicKey } = PAIRS.EdDSA;
  const verified = (more: object): Promise<string> => {
    const signedHead = head('k1', { alg: 'EdDSA', ...more });
    const payload = Buffer.from(canonicalJson(card)).toString('base64url');
    const signature = sign(null, Buffer.from(`${signedHead}.${payload}`), privateKey);
    const signatures = [{ protected: signedHead, signature: signature.toString('base64url') }];
    return verifyCard({ ...card, signatures }, () => publicKey);
  };
  expect(await verified({})).toBe('k1');
  await expect(verified({ crit: ['exp'], exp: 1 })).rejects.toMatchObject({ code: 'unauthorized' });
});

const head = (kid: string, more: object = { alg: 'ES256' }): string =>
  Buffer.from(JSON.stringify({ kid, typ: 'JOSE', ...more })).toString('base64url');

test('the canonical form ignores the order of members and drops defaults', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (object) => {
      const turned = Object.fromEntries(Object.entries(object).toReversed());
      expect(canonicalJson(turned)).toBe(canonicalJson(object));
      expect(JSON.parse(canonicalJson(object))).toEqual(JSON.parse(JSON.stringify(object)));
    }),
  );
  const again = { ...pure, signatures: [], iconUrl: undefined, provider: null };
  const [a, b] = [pure, again].map((card) =>
    cardSignature(card, { key: PAIRS.EdDSA.privateKey, kid: 'k' }),
  );
  expect(b).toEqual(a);
});

test('numbers and strings are written as RFC 8785 says', () => {
  const text = canonicalJson({
    '\u20ac': 'Euro',
    '\r': 'CR',
    n: [333333333.3333333, 1e30, 4.5, 2e-3],
  });
  expect(text).toBe('{"\\r":"CR","n":[333333333.3333333,1e+30,4.5,0.002],"€":"Euro"}');
});
