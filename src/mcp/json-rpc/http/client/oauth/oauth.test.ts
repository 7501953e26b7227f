import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportPKCS8, generateKeyPair, jwtVerify } from 'jose';
import { describe, expect, test } from 'vitest';
import { ourCatalogue } from '../../../../../../test/support/mcp/catalogue.ts';
import {
  type OAuthScript,
  type OAuthWorld,
  oauthWorld,
} from '../../../../../../test/support/mcp/oauth-server.ts';
import { call, toArray } from '../../../../../../test/contracts/tool-source.contract.ts';
import { listen } from '../../../../../http/node-server.ts';
import type { JsonObject } from '../../../../../json.ts';
import type { ToolSource } from '../../../../types.ts';
import { dialHttp } from '../dial-http.ts';
import { readChallenge } from './challenge.ts';
import type { OAuthOptions, OAuthStore } from './types.ts';

const redirectUrl = 'http://localhost:3000/callback';
const { source } = ourCatalogue();

const dial = (
  { url, authorize }: OAuthWorld,
  more: OAuthOptions = {},
): Promise<ToolSource & AsyncDisposable> =>
  dialHttp({ url, protocol: 'stateless', oauth: { authorize, redirectUrl, ...more } });

const callOnce = (dialled: ToolSource): Promise<unknown[]> =>
  toArray(dialled.callTool(call('echo', { text: 'hi' })));

describe('a server that requires a login', () => {
  test('gets one login for all callers, and a refresh when the token has expired', async () => {
    await using world = await oauthWorld(source);
    await using dialled = await dial(world);
    expect(world.log).toEqual(['register', 'authorize mcp:use', 'token authorization_code']);
    expect(world.form.get('resource')).toBe(world.url);
    world.expire();
    await Promise.all(Array.from({ length: 8 }, () => callOnce(dialled)));
    expect(world.log.slice(3)).toEqual(['token refresh_token']);
    world.expire();
    world.revoke();
    await callOnce(dialled);
    expect(world.log.slice(4)).toEqual([
      'token refresh_token',
      'authorize mcp:use',
      'token authorization_code',
    ]);
  });

  test('gets a refresh before the token expires', async () => {
    await using world = await oauthWorld(source, { expiresIn: 10 });
    await using dialled = await dial(world);
    await callOnce(dialled);
    expect(world.log).toContain('token refresh_token');
    expect(world.log.filter((each) => each.startsWith('authorize'))).toHaveLength(1);
  });

  test('gets no second login if the token was stored', async () => {
    await using world = await oauthWorld(source);
    const kept = new Map<string, JsonObject>();
    const store: OAuthStore = {
      load: async (name) => kept.get(name),
      async save(name, value) {
        if (value) kept.set(name, value);
        else kept.delete(name);
      },
    };
    await (await dial(world, { store }))[Symbol.asyncDispose]();
    const asked = world.log.length;
    await using again = await dial(world, { store });
    await callOnce(again);
    expect(world.log).toHaveLength(asked);
    expect([...kept.keys()].toSorted()).toEqual([
      `client of ${world.issuer}`,
      `token for ${world.url}`,
    ]);
  });

  test('gets a login with more scopes when a call needs them', async () => {
    await using world = await oauthWorld(source, { callScope: 'mcp:call' });
    await using dialled = await dial(world);
    await callOnce(dialled);
    expect(world.log.filter((each) => each.startsWith('authorize'))).toEqual([
      'authorize mcp:use',
      'authorize mcp:use mcp:call',
    ]);
  });

  test('that never accepts the scopes does not cause endless logins', async () => {
    await using world = await oauthWorld(source, { callScope: 'never' });
    const authorize = async (page: URL): Promise<URL> => {
      page.searchParams.set('scope', 'less');
      return world.authorize(page);
    };
    await using dialled = await dial(world, { authorize });
    await expect(callOnce(dialled)).rejects.toMatchObject({ code: 'unauthorized', status: 403 });
    expect(world.log.filter((each) => each.startsWith('authorize'))).toHaveLength(2);
  });

  test('fails the call of a caller that aborts, or of a person that declines', async () => {
    await using world = await oauthWorld(source);
    const stop = new AbortController();
    const authorize = (): Promise<URL> => {
      stop.abort(new Error('enough'));
      return new Promise(() => {});
    };
    const oauth = { authorize, redirectUrl };
    await expect(
      dialHttp({ url: world.url, protocol: 'stateless', oauth, signal: stop.signal }),
    ).rejects.toThrow('enough');
    await expect(
      dial(world, { authorize: () => Promise.reject(new Error('No, thanks.')) }),
    ).rejects.toThrow('No, thanks.');
  });
});

describe('the authentication of a client', () => {
  test('uses the configured client, at its own issuer only', async () => {
    await using world = await oauthWorld(source);
    const client = { id: 'us', secret: 'hush', issuer: 'https://elsewhere.example' };
    await using stranger = await dial(world, { client });
    expect(world.log).toContain('register');
    expect(world.form.get('client_id')).not.toBe('us');
    await using friend = await dial(world, { client: { ...client, issuer: world.issuer } });
    expect(world.log.filter((each) => each === 'register')).toHaveLength(1);
    expect([stranger.info, friend.info]).toHaveLength(2);
  });

  test('may use a signed key, without a person', async () => {
    await using world = await oauthWorld(source, {
      metadata: { token_endpoint_auth_methods_supported: ['private_key_jwt'] },
    });
    const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
    const client = { id: 'us', privateKey: await exportPKCS8(privateKey) };
    await using dialled = await dialHttp({
      url: world.url,
      protocol: 'stateless',
      oauth: { client },
    });
    await callOnce(dialled);
    expect(world.log).toEqual(['token client_credentials']);
    const { payload } = await jwtVerify(world.form.get('client_assertion')!, publicKey, {
      audience: world.issuer,
      issuer: 'us',
    });
    expect(payload.sub).toBe('us');
  });
});

describe('a login is refused', () => {
  const cases: readonly [string, OAuthScript, string][] = [
    [
      'for another server than ours',
      { resource: { resource: 'https://x.example/mcp' } },
      'describes https://x.example/mcp',
    ],
    [
      'at one that calls itself another',
      { metadata: { issuer: 'https://x.example' } },
      'has another issuer',
    ],
    ['at one without PKCE', { metadata: { code_challenge_methods_supported: ['plain'] } }, 'PKCE'],
    [
      'without TLS',
      { metadata: { token_endpoint: 'http://x.example/token' } },
      'expected an https address',
    ],
    ['from another login', { back: { state: 'another' } }, 'state'],
    ['from another place', { back: { iss: 'https://x.example' } }, 'iss'],
    ['in its own words', { back: { error: 'access_denied' } }, 'access_denied'],
  ];
  test.each(cases)('%s', async (_, script, why) => {
    await using world = await oauthWorld(source, script);
    await expect(dial(world)).rejects.toMatchObject({
      code: 'unauthorized',
      message: expect.stringContaining(why) as string,
    });
  });
});

test('a challenge is parsed among other parameters', () => {
  expect(readChallenge(null)).toEqual({});
  expect(readChallenge('Basic realm="x"')).toEqual({});
  expect(
    readChallenge('Basic realm="a", Bearer error=invalid_token, scope="a b", x="\\"scope=c\\""'),
  ).toEqual({ error: 'invalid_token', scope: 'a b' });
  expect(readChallenge('bearer resource_metadata="https://a/b,c"')).toEqual({
    resourceMetadata: 'https://a/b,c',
  });
});

describe('a hostile tool server', () => {
  const metadataAt = (place: string): Response =>
    new Response(null, {
      status: 401,
      headers: { 'www-authenticate': `Bearer resource_metadata="${place}"` },
    });

  /** Dials with a `fetch` that answers by a table and notes every URL that was asked for. */
  const attack = async (
    url: string,
    answers: (asked: URL) => Response,
  ): Promise<{ readonly asked: string[]; readonly error: unknown }> => {
    const asked: string[] = [];
    const fetch = async (input: URL | Request | string): Promise<Response> => {
      const target = new URL(input instanceof Request ? input.url : input);
      asked.push(target.href);
      return answers(target);
    };
    const { OAuth } = await import('./authorizer.ts');
    const oauth = new OAuth(
      new URL(url),
      { authorize: async () => redirectUrl, redirectUrl },
      fetch,
    );
    const signal = AbortSignal.timeout(20_000);
    const error: unknown = await oauth
      .refused(metadataAt(answersAt(url)), undefined, signal)
      .catch((reason: unknown) => reason);
    return { asked, error };
  };
  const answersAt = (url: string): string => new URL('/first', url).href;

  test.each([
    'http://0.0.0.0/latest',
    'http://169.254.169.254/latest/meta-data',
    'https://10.0.0.1/secret',
    'http://127.0.0.1:1/internal',
    'https://[::1]/internal',
  ])('cannot redirect us to %s', async (place) => {
    const { asked, error } = await attack('https://93.184.216.34/mcp', (url) =>
      url.pathname === '/first'
        ? new Response(null, { status: 302, headers: { location: place } })
        : Response.json({}),
    );
    expect(error).toMatchObject({ code: 'unauthorized' });
    expect(asked).toEqual(['https://93.184.216.34/first']);
  });

  test('cannot name a private address itself', async () => {
    const asked: string[] = [];
    const { Documents } = await import('./documents.ts');
    const documents = new Documents(
      async (input) => {
        asked.push(String(input));
        return Response.json({});
      },
      new AbortController().signal,
      new URL('https://93.184.216.34/mcp'),
    );
    await expect(documents.find(new URL('https://127.0.0.1/x'))).rejects.toMatchObject({
      code: 'unauthorized',
    });
    await expect(
      documents.post(new URL('https://192.168.1.1/token'), '', {}),
    ).rejects.toMatchObject({ code: 'unauthorized' });
    expect(asked).toEqual([]);
    expect(await documents.find(new URL('https://93.184.216.35/x'))).toEqual({});
  });

  test('cannot redirect a code or a secret', async () => {
    const posted: string[] = [];
    const thief = createServer((request, response) => {
      posted.push(request.url ?? '');
      response.end('{}');
    }).listen(0, '127.0.0.1');
    await once(thief, 'listening');
    const { port } = thief.address() as AddressInfo;
    const issuer = createServer((_, response) => {
      response.writeHead(307, { location: `http://127.0.0.1:${port}/stolen` }).end();
    }).listen(0, '127.0.0.1');
    await once(issuer, 'listening');
    const url = new URL(`http://127.0.0.1:${(issuer.address() as AddressInfo).port}/token`);
    try {
      const { Documents } = await import('./documents.ts');
      const documents = new Documents(fetch, new AbortController().signal, url);
      await expect(documents.post(url, 'client_secret=hush', {})).rejects.toMatchObject({
        code: 'unauthorized',
      });
      expect(posted).toEqual([]);
    } finally {
      for (const server of [thief, issuer]) server.close().closeAllConnections();
    }
  });

  test.each([
    ['another issuer', (real: string) => ({ issuer: real })],
    ['the login page of another issuer', () => ({})],
  ])('gets no code of %s', async (_, names) => {
    await using real = await oauthWorld(source);
    const posted: string[] = [];
    await using thief = await listen(async (request) => {
      const { pathname, origin } = new URL(request.url);
      if (pathname === '/mcp') return new Response(null, { status: 401 });
      if (pathname === '/register') return Response.json({ client_id: 'ours at the other one' });
      if (pathname === '/token') posted.push(await request.text());
      if (pathname !== '/.well-known/oauth-authorization-server')
        return new Response(null, { status: 404 });
      return Response.json({
        issuer: origin,
        authorization_endpoint: `${real.issuer}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        code_challenge_methods_supported: ['S256'],
        ...names(real.issuer),
      });
    });
    const world = { ...real, url: `${thief.url}/mcp` };
    await expect(dial(world).then(callOnce)).rejects.toMatchObject({ code: 'unauthorized' });
    expect(posted).toEqual([]);
  });

  test('gets no secret that is for another issuer, and a secret needs one', async () => {
    await using world = await oauthWorld(source);
    await expect(dial(world, { client: { id: 'us', secret: 'hush' } })).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('oauth.client.issuer') as string,
    });
    expect(world.log).toEqual([]);
  });
});

test('a store that failed once is used again', async () => {
  await using world = await oauthWorld(source);
  let loads = 0;
  const store: OAuthStore = {
    async load() {
      loads += 1;
      if (loads === 1) throw new Error('the disk was away');
      return undefined;
    },
    async save() {},
  };
  const { OAuth } = await import('./authorizer.ts');
  const oauth = new OAuth(new URL(world.url), { store });
  const { signal } = new AbortController();
  await expect(oauth.headers(signal)).rejects.toThrow('the disk was away');
  expect(await oauth.headers(signal)).toEqual({});
});
