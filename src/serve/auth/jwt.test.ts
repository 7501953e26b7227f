import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT, type JWK, type JWTPayload } from 'jose';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createGuard } from './guard.ts';
import type { JwtAuth } from './jwt.ts';

type PrivateKey = Awaited<ReturnType<typeof generateKeyPair>>['privateKey'];

/** An authorization server: its keys, its OpenID configuration, and how often it was asked. */
const issuer = { url: '', keys: [] as JWK[], asked: 0, broken: false };
const server = createServer((request, response) => {
  issuer.asked++;
  const jwks_uri = `${issuer.url}/keys`;
  const body =
    request.url === '/keys'
      ? { keys: issuer.keys }
      : { issuer: issuer.url, jwks_uri, token_endpoint: `${issuer.url}/token` };
  response.writeHead(issuer.broken ? 500 : 200).end(JSON.stringify(body));
});

const makeKey = async (kid: string, alg: string): Promise<{ secret: PrivateKey; public: JWK }> => {
  const { privateKey, publicKey } = await generateKeyPair(alg);
  return { secret: privateKey, public: { ...(await exportJWK(publicKey)), kid, alg } };
};
let first: Awaited<ReturnType<typeof makeKey>>;
let second: Awaited<ReturnType<typeof makeKey>>;

beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  issuer.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  [first, second] = await Promise.all([makeKey('one', 'ES256'), makeKey('two', 'EdDSA')]);
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  Object.assign(issuer, { keys: [first.public], asked: 0, broken: false });
});

const now = (): number => Math.floor(Date.now() / 1000);

/** A good token, unless `claims` or `header` say otherwise. */
const token = (claims: JWTPayload = {}, header: object = {}, key = first.secret): Promise<string> =>
  new SignJWT({ iss: issuer.url, aud: 'agent', sub: 'ada', exp: now() + 60, ...claims })
    .setProtectedHeader({ alg: 'ES256', kid: 'one', ...header })
    .sign(key);

const guardOf = (more: Partial<JwtAuth> = {}) => {
  const guard = createGuard('127.0.0.1', {
    bearer: { bob: 'token-of-bob' },
    jwt: { issuer: issuer.url, audience: 'agent', cooldownMs: 0, clockSkewMs: 5000, ...more },
  });
  return async (bearer?: string, open = false) => {
    const headers = bearer === undefined ? {} : { authorization: `Bearer ${bearer}` };
    const { owner, response } = await guard(new Request('http://127.0.0.1/a2a', { headers }), {
      open,
    });
    const challenge = response?.headers.get('www-authenticate');
    return owner === undefined ? [response?.status, challenge] : owner;
  };
};

const invalid = (description: string): unknown => [
  401,
  `Bearer error="invalid_token", error_description="${description}"`,
];

test('the guard returns when a token expires, so that streams end with it', async () => {
  const jwt = { issuer: issuer.url, audience: 'agent', clockSkewMs: 5000 };
  const exp = now() + 60;
  const headers = { authorization: `Bearer ${await token({ exp })}` };
  const passed = await createGuard('127.0.0.1', { jwt })(
    new Request('http://localhost', { headers }),
  );
  expect(passed).toEqual({ owner: 'ada', until: exp * 1000 + 5000 });
});

test('the owner of a request is the subject of its token, or another claim', async () => {
  expect(await guardOf()(await token())).toBe('ada');
  const byMail = guardOf({ ownerClaim: 'email' });
  expect(await byMail(await token({ email: 'ada@example.com' }))).toBe('ada@example.com');
  expect(await byMail(await token())).toEqual(invalid('the token has no valid email'));
});

test('keys come from the OpenID configuration, or from the option jwks', async () => {
  await guardOf()(await token());
  expect(issuer.asked).toBe(2);
  await guardOf({ jwks: `${issuer.url}/keys` })(await token());
  expect(issuer.asked).toBe(3);
});

test('a secret or a token is accepted, and a request without either is refused', async () => {
  const ask = guardOf();
  expect(await ask('token-of-bob')).toBe('bob');
  expect(await ask()).toEqual([401, 'Bearer']);
  expect(await ask('token-of-mallory')).toEqual(invalid('the token is not valid'));
  expect(issuer.asked).toBe(0);
  expect(await ask('a.b.c', true)).toEqual([undefined, undefined]); // the card is for everybody
});

describe('a token is refused', () => {
  test.each<[string, string, () => Promise<string> | string]>([
    ['that has expired', 'the token has expired', () => token({ exp: now() - 60 })],
    ['without an end', 'the token has no exp', () => token({ exp: undefined as never })],
    ['of tomorrow', 'the token is not valid yet', () => token({ nbf: now() + 3600 })],
    ['for another server', 'the token is for another audience', () => token({ aud: 'other' })],
    ['of another issuer', 'the token is of another issuer', () => token({ iss: 'https://x.y' })],
    ['with an unknown key id', 'the token is not valid', () => token({}, { kid: 'none' })],
    [
      'signed with another key',
      'the token is not valid',
      () => token({}, { alg: 'EdDSA' }, second.secret),
    ],
    [
      'without a signature',
      'the token is not valid',
      () =>
        new UnsecuredJWT({ iss: issuer.url, aud: 'agent', sub: 'ada', exp: now() + 60 }).encode(),
    ],
    [
      'signed with the public key as a shared secret',
      'the token is not valid',
      () =>
        new SignJWT({ iss: issuer.url, aud: 'agent', sub: 'ada', exp: now() + 60 })
          .setProtectedHeader({ alg: 'HS256', kid: 'one' })
          .sign(new TextEncoder().encode(JSON.stringify(first.public))),
    ],
    [
      'whose claims were changed',
      'the token is not valid',
      async () => {
        const [head, , signature] = (await token()).split('.');
        const claims = { iss: issuer.url, aud: 'agent', sub: 'eve', exp: now() + 60 };
        return `${head}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.${signature}`;
      },
    ],
  ])('%s', async (_, description, make) => {
    expect(await guardOf()(await make())).toEqual(invalid(description));
  });

  test('of an algorithm that is not allowed', async () => {
    expect(await guardOf({ algorithms: ['RS256'] })(await token())).toEqual(
      invalid('the token is not valid'),
    );
  });
});

test('a clock may differ by clockSkewMs', async () => {
  expect(await guardOf()(await token({ exp: now() - 2, nbf: now() + 2 }))).toBe('ada');
  expect(await guardOf({ clockSkewMs: 0 })(await token({ exp: now() - 2 }))).toEqual(
    invalid('the token has expired'),
  );
});

test('a new key of the issuer is accepted, and unknown keys do not cause a request each time', async () => {
  const eager = guardOf();
  const patient = guardOf({ cooldownMs: 60_000 });
  for (const ask of [eager, patient]) expect(await ask(await token())).toBe('ada');
  issuer.keys = [second.public];
  const rotated = await token({ sub: 'eve' }, { alg: 'EdDSA', kid: 'two' }, second.secret);
  expect(await eager(rotated)).toBe('eve');
  const { asked } = issuer;
  for (let n = 0; n < 3; n++)
    expect(await patient(rotated)).toEqual(invalid('the token is not valid'));
  expect(issuer.asked).toBe(asked);
});

test('a token must grant the required scopes', async () => {
  const ask = guardOf({ scopes: ['agent:run', 'agent:read'] });
  expect(await ask(await token({ scope: 'agent:read x agent:run' }))).toBe('ada');
  expect(await ask(await token({ scp: ['agent:run', 'agent:read'] }))).toBe('ada');
  expect(await ask(await token({ scope: 'agent:read' }))).toEqual([
    403,
    'Bearer error="insufficient_scope", error_description="the token lacks a required scope", scope="agent:run agent:read"',
  ]);
});

test('a token is not called invalid while its issuer is down', async () => {
  issuer.broken = true;
  for (const more of [{}, { jwks: `${issuer.url}/keys` }]) {
    const ask = guardOf(more);
    expect(await ask(await token())).toEqual([503, null]);
    issuer.broken = false;
    await expect.poll(async () => ask(await token())).toBe('ada');
    issuer.broken = true;
  }
});

test.each<Partial<JwtAuth>>([
  { issuer: 'http://login.example.com' },
  { issuer: 'login.example.com' },
  { jwks: 'http://login.example.com/keys' },
  { algorithms: ['none'] },
  { algorithms: ['HS256'] },
])('a server with %o does not start', (jwt) => {
  expect(() => guardOf(jwt)).toThrow(expect.objectContaining({ code: 'invalid' }) as Error);
});

test('a token cannot name the holder of a configured secret, nor an owner that a store could confuse', async () => {
  const ask = guardOf();
  expect(await ask('token-of-bob')).toBe('bob');
  expect(await ask(await token({ sub: 'bob' }))).toEqual(
    invalid('the token is for an owner that has a secret on this server'),
  );
  for (const sub of ['ada\nbob', 'ada\u0000', 'x'.repeat(513)])
    expect(await ask(await token({ sub }))).toEqual(invalid('the token has no valid sub'));
});
