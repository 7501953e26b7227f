import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { expect, onTestFinished, test } from 'vitest';
import { call, toArray } from '../../../test/contracts/tool-source.contract.ts';
import { listen } from '../../http/node-server.ts';
import { createRegistry, dialHttp, tool } from '../../mcp/index.ts';
import { memoryLog } from '../../task/memory/memory-log.ts';
import { serve, type Served } from '../index.ts';

/** An authorization server that gives a token to any client. */
async function issuerOf(audience: string): Promise<string> {
  const { privateKey, publicKey } = await generateKeyPair('ES256');
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' }];
  const listening = await listen(async ({ url: asked }) => {
    const { pathname, origin: issuer } = new URL(asked);
    if (pathname === '/keys') return Response.json({ keys });
    if (pathname === '/token') {
      const access_token = await new SignJWT({ sub: 'ada', scope: 'mcp:use' })
        .setProtectedHeader({ alg: 'ES256', kid: 'one' })
        .setIssuer(issuer)
        .setAudience(audience)
        .setExpirationTime('1m')
        .sign(privateKey);
      return Response.json({ access_token, token_type: 'Bearer' });
    }
    if (!pathname.startsWith('/.well-known/')) return new Response(null, { status: 404 });
    return Response.json({
      issuer,
      jwks_uri: `${issuer}/keys`,
      token_endpoint: `${issuer}/token`,
      authorization_endpoint: `${issuer}/authorize`,
      response_types_supported: ['code'],
      code_challenge_methods_supported: ['S256'],
      grant_types_supported: ['client_credentials'],
    });
  });
  onTestFinished(() => listening[Symbol.asyncDispose]());
  return listening.url;
}

async function serveTools(issuer: string, more: { publicUrl?: string } = {}): Promise<Served> {
  const tools = createRegistry({ name: 's', tools: [tool('hi', '', {}, () => 'hello')] });
  const jwt = { issuer, audience: 'agent', scopes: ['mcp:use'] };
  return serve(async function* () {}, { log: memoryLog(), auth: { jwt }, tools, ...more });
}

test('a client of the MCP endpoint finds the issuer of its tokens', async () => {
  const issuer = await issuerOf('agent');
  await using served = await serveTools(issuer);
  await using source = await dialHttp({
    url: `${served.url}/mcp`,
    oauth: { client: { id: 'us', secret: 'shh', issuer } },
  });
  const [result] = await toArray(source.callTool(call('hi')));
  expect(result).toMatchObject({ result: { content: [{ text: 'hello' }] } });
});

test('the 401 response names the document at the public address', async () => {
  const issuer = await issuerOf('agent');
  await using served = await serveTools(issuer, { publicUrl: 'https://agents.example' });
  const refused = await fetch(`${served.url}/mcp`, { method: 'POST', body: '{}' });
  expect(refused.status).toBe(401);
  const path = '/.well-known/oauth-protected-resource/mcp';
  expect(refused.headers.get('www-authenticate')).toBe(
    `Bearer resource_metadata="https://agents.example${path}"`,
  );
  expect(await (await fetch(`${served.url}${path}`)).json()).toEqual({
    resource: 'https://agents.example/mcp',
    authorization_servers: [issuer],
    bearer_methods_supported: ['header'],
    scopes_supported: ['mcp:use'],
  });
  const elsewhere = await fetch(`${served.url}/api/tasks`);
  expect(elsewhere.headers.get('www-authenticate')).toBe('Bearer');
});
