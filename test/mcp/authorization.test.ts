import { createHash } from 'node:crypto';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { describe, expect, test } from 'vitest';
import { listen } from '../../src/http/node-server.ts';
import type { JsonObject } from '../../src/json.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import type { McpAuthorization } from '../../src/mcp/json-rpc/http/server/authorization.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import { tokenChecker } from '../../src/serve/auth/jwt.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { toArray } from '../contracts/tool-source.contract.ts';

const AUDIENCE = 'https://tools.example/mcp';

interface Issuer {
  readonly url: string;
  readonly log: string[];
  sign(claims: {
    scope?: string;
    audience?: string;
    expires?: string;
    sub?: string;
  }): Promise<string>;
}

/** An authorization server that lets every client in and issues JWTs with the requested scopes. */
async function issuerOf(scope: Disposer): Promise<Issuer> {
  const { privateKey, publicKey } = await generateKeyPair('ES256');
  const log: string[] = [];
  const codes = new Map<string, { readonly challenge: string; readonly scope: string }>();
  let url = '';
  const sign: Issuer['sign'] = ({ audience = AUDIENCE, expires = '1h', sub = 'ann', ...claims }) =>
    new SignJWT({ scope: '', ...claims })
      .setProtectedHeader({ alg: 'ES256', kid: 'k' })
      .setIssuer(url)
      .setAudience(audience)
      .setSubject(sub)
      .setIssuedAt()
      .setExpirationTime(expires)
      .sign(privateKey);
  const listening = await listen(async (request) => {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === '/keys')
      return Response.json({ keys: [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256' }] });
    if (pathname.startsWith('/.well-known/'))
      return Response.json({
        issuer: url,
        jwks_uri: `${url}/keys`,
        authorization_endpoint: `${url}/authorize`,
        token_endpoint: `${url}/token`,
        registration_endpoint: `${url}/register`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
      });
    if (pathname === '/register')
      return Response.json({ client_id: 'client', ...((await request.json()) as JsonObject) });
    if (pathname === '/authorize') {
      const wanted = searchParams.get('scope') ?? '';
      log.push(wanted);
      const code = `code-${log.length}`;
      codes.set(code, { challenge: searchParams.get('code_challenge')!, scope: wanted });
      const back = new URL(searchParams.get('redirect_uri')!);
      back.searchParams.set('code', code);
      back.searchParams.set('state', searchParams.get('state')!);
      return new Response(null, { status: 302, headers: { location: back.href } });
    }
    const form = new URLSearchParams(await request.text());
    const known = codes.get(form.get('code') ?? '');
    const verified = createHash('sha256').update(form.get('code_verifier') ?? '');
    if (known?.challenge !== verified.digest('base64url'))
      return Response.json({ error: 'invalid_grant' }, { status: 400 });
    const access_token = await sign({ scope: known.scope });
    return Response.json({ access_token, token_type: 'Bearer', expires_in: 3600 });
  }, {});
  url = scope.use(listening).url;
  return { url, log, sign };
}

const registry = createRegistry({
  name: 'guarded',
  tools: [tool('read', 'Reads', {}, () => 'read'), tool('write', 'Writes', {}, () => 'written')],
});

async function guarded(
  scope: Disposer,
  more: Partial<McpAuthorization> = {},
): Promise<{ url: string; issuer: Issuer }> {
  const issuer = await issuerOf(scope);
  const authorization: McpAuthorization = {
    check: tokenChecker({ issuer: issuer.url, audience: AUDIENCE }),
    authorizationServers: [issuer.url],
    scopes: ['mcp:use'],
    scopesOf: (method, { name }) =>
      method === 'tools/call' && name === 'write' ? ['mcp:write'] : [],
    ...more,
  };
  const { url } = scope.use(await offerHttp(registry, { authorization }));
  return { url, issuer };
}

const LIST = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} };
const WRITE = { ...LIST, method: 'tools/call', params: { name: 'write', arguments: {} } };

async function send(url: string, token?: string, message: JsonObject = LIST): Promise<Response> {
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const params = message['params'] as JsonObject;
  return fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': String(message['method']),
      ...(typeof params['name'] === 'string' && { 'mcp-name': params['name'] }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({ ...message, params: { ...params, _meta } }),
  });
}

describe('authorization of an MCP endpoint', () => {
  test('a request without a token learns where to get one', async () => {
    await using scope = new Disposer();
    const { url, issuer } = await guarded(scope);
    for (const response of [
      await send(url),
      await fetch(url),
      await fetch(url, { method: 'DELETE' }),
    ]) {
      expect(response.status).toBe(401);
      const challenge = response.headers.get('www-authenticate')!;
      expect(challenge).toContain('scope="mcp:use"');
      const [, metadata] = /resource_metadata="([^"]+)"/.exec(challenge)!;
      expect(metadata).toBe(new URL('/.well-known/oauth-protected-resource/mcp', url).href);
      expect(await (await fetch(metadata!)).json()).toEqual({
        resource: url,
        authorization_servers: [issuer.url],
        bearer_methods_supported: ['header'],
        scopes_supported: ['mcp:use'],
      });
    }
  });

  test('a token passes only with its signature, audience, issuer, time and scopes', async () => {
    await using scope = new Disposer();
    const { url, issuer } = await guarded(scope);
    const other = await issuerOf(scope);
    const status = async (token: string, message?: JsonObject): Promise<unknown> => {
      const response = await send(url, token, message);
      const [, error] = /error="(\w+)"/.exec(response.headers.get('www-authenticate') ?? '') ?? [];
      return [response.status, error];
    };
    const use = { scope: 'mcp:use' };
    expect(await status(await issuer.sign(use))).toEqual([200, undefined]);
    expect(await status('nonsense')).toEqual([401, 'invalid_token']);
    expect(await status(await other.sign(use))).toEqual([401, 'invalid_token']);
    const elsewhere = await issuer.sign({ ...use, audience: 'https://other.example/mcp' });
    expect(await status(elsewhere)).toEqual([401, 'invalid_token']);
    const old = await issuer.sign({ ...use, expires: '1 minute ago' });
    expect(await status(old)).toEqual([401, 'invalid_token']);
    expect(await status(await issuer.sign({}))).toEqual([403, 'insufficient_scope']);
    expect(await status(await issuer.sign(use), WRITE)).toEqual([403, 'insufficient_scope']);
    const write = await issuer.sign({ scope: 'mcp:use mcp:write' });
    expect(await status(write, WRITE)).toEqual([200, undefined]);
  });

  test('a call that needs more scopes names all that the token must have', async () => {
    await using scope = new Disposer();
    const { url, issuer } = await guarded(scope);
    const response = await send(url, await issuer.sign({ scope: 'mcp:use' }), WRITE);
    const challenge = response.headers.get('www-authenticate')!;
    expect(challenge).toContain('error="insufficient_scope"');
    expect(challenge).toContain('scope="mcp:use mcp:write"');
    expect(challenge).toContain('resource_metadata="');
  });

  for (const protocol of ['session', 'stateless'] as const)
    test(`a client logs in, and again with more scopes when a call needs them (${protocol})`, async () => {
      await using scope = new Disposer();
      const issuer = await issuerOf(scope);
      const check = tokenChecker({ issuer: issuer.url, audience: AUDIENCE });
      const { url } = scope.use(
        await offerHttp(registry, {
          authorization: {
            check,
            authorizationServers: [issuer.url],
            scopes: ['mcp:use'],
            scopesOf: (_, { name }) => (name === 'write' ? ['mcp:write'] : []),
          },
        }),
      );
      const authorize = async (page: URL): Promise<URL> => {
        const { headers } = await fetch(page, { redirect: 'manual' });
        return new URL(headers.get('location')!);
      };
      const oauth = { authorize, redirectUrl: 'http://localhost:3000/callback' };
      const source = scope.use(await dialHttp({ url, protocol, oauth }));
      expect(await toArray(source.listTools())).toHaveLength(2);
      expect(issuer.log).toEqual(['mcp:use']);
      const written = await toArray(source.callTool({ id: '1', name: 'write', args: {} }));
      expect(written.at(-1)).toMatchObject({ type: 'result' });
      expect(issuer.log).toHaveLength(2);
      expect(issuer.log[1]!.split(' ').toSorted()).toEqual(['mcp:use', 'mcp:write']);
    });

  test('a session and its calls belong to the owner of the token', async () => {
    await using scope = new Disposer();
    const { url, issuer } = await guarded(scope);
    const post = (token: string, message: JsonObject, session?: string): Promise<Response> =>
      fetch(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          authorization: `Bearer ${token}`,
          ...(session !== undefined && { 'mcp-session-id': session }),
        },
        body: JSON.stringify(message),
      });
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'x', version: '1' },
    };
    const ann = await issuer.sign({ scope: 'mcp:use' });
    const bob = await issuer.sign({ scope: 'mcp:use', sub: 'bob' });
    const begun = await post(ann, { ...LIST, method: 'initialize', params });
    const session = begun.headers.get('mcp-session-id')!;
    expect((await post(ann, LIST, session)).status).toBe(200);
    expect((await post(bob, LIST, session)).status).toBe(404);
  });

  test('keys that cannot be read refuse the request, and are reported', async () => {
    await using scope = new Disposer();
    const errors: unknown[] = [];
    const { url } = scope.use(
      await offerHttp(registry, {
        onError: (error) => errors.push(error),
        authorization: {
          check: () => Promise.reject(new Error('no keys')),
          authorizationServers: ['https://issuer.example'],
        },
      }),
    );
    expect((await send(url, 'a.b.c')).status).toBe(503);
    expect(errors).toHaveLength(1);
  });

  test('options that guard nothing are refused', async () => {
    const check: McpAuthorization['check'] = async () => ({ owner: 'x', scopes: [] });
    await expect(
      offerHttp(registry, { authorization: { check, authorizationServers: [] } }),
    ).rejects.toThrow('at least one issuer');
    const authorization = { check, authorizationServers: ['https://issuer.example'] };
    await expect(offerHttp(registry, { authorization, sse: '/sse' })).rejects.toThrow('omit sse');
  });
});
