import { generateKeyPairSync } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { agentCard } from './card.ts';
import { canonicalJson, cardSignature, verifyCard } from './signature.ts';

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

test('a key of another kind, no key and no signature do not verify', async () => {
  const signature = cardSignature(pure, { key: PAIRS.ES256.privateKey, kid: 'k1' });
  const signed = { ...pure, signatures: [{ nonsense: true }, signature] };
  for (const key of [PAIRS.RS256.publicKey, PAIRS.EdDSA.publicKey, undefined])
    await expect(verifyCard(signed, () => key)).rejects.toMatchObject({ code: 'unauthorized' });
  await expect(verifyCard(pure, () => PAIRS.ES256.publicKey)).rejects.toMatchObject({
    code: 'unauthorized',
  });
});

test('the canonical form does not depend on the order of members, and drops what is default', () => {
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
