import { createHash } from 'node:crypto';
import { listen } from '../../../src/http/node-server.ts';
import type { JsonObject } from '../../../src/json.ts';
import { mcpHandler } from '../../../src/mcp/json-rpc/http/server/mcp-handler.ts';
import type { ToolSource } from '../../../src/mcp/types.ts';

/** Deviations from the default behaviour that a test may set. */
export interface OAuthScript {
  /** Members that replace those of the documents. */
  readonly resource?: JsonObject;
  readonly metadata?: JsonObject;
  /** Added to the redirect address after the login. */
  readonly back?: Record<string, string>;
  /** Lifetime of a token in seconds; unlimited by default. */
  readonly expiresIn?: number;
  /** An additional scope that `tools/call` needs. */
  readonly callScope?: string;
}

export interface OAuthWorld extends AsyncDisposable {
  /** The MCP endpoint, which requires a token. */
  readonly url: string;
  readonly issuer: string;
  /** All requests to the authorization server, such as `authorize mcp:use`. */
  readonly log: readonly string[];
  /** Acts as the user: opens the login page and is redirected immediately. */
  readonly authorize: (page: URL) => Promise<URL>;
  /** Revokes all access tokens. */
  expire(): void;
  /** Revokes all refresh tokens too. */
  revoke(): void;
  /** The form of the last token request. */
  readonly form: URLSearchParams;
}

/** A source behind an authorization server, both on loopback. */
export async function oauthWorld(
  source: ToolSource,
  script: OAuthScript = {},
): Promise<OAuthWorld> {
  const log: string[] = [];
  const tokens = new Map<string, string>();
  const refreshes = new Set<string>();
  const codes = new Map<string, { readonly challenge: string; readonly scope: string }>();
  let count = 0;
  let form = new URLSearchParams();

  const give = (scope: string): Response => {
    const [access, refresh] = [`access-${(count += 1)}`, `refresh-${count}`];
    tokens.set(access, scope);
    refreshes.add(refresh);
    return Response.json({
      access_token: access,
      token_type: 'Bearer',
      refresh_token: refresh,
      ...(script.expiresIn !== undefined && { expires_in: script.expiresIn }),
    });
  };
  const refuse = (error: string): Response => Response.json({ error }, { status: 400 });

  const token = async (request: Request): Promise<Response> => {
    form = new URLSearchParams(await request.text());
    const grant = form.get('grant_type') ?? '';
    log.push(`token ${grant}`);
    if (grant === 'client_credentials') return give(form.get('scope') ?? '');
    if (grant === 'refresh_token')
      return refreshes.delete(form.get('refresh_token') ?? '')
        ? give('mcp:use')
        : refuse('invalid_grant');
    const code = codes.get(form.get('code') ?? '');
    const verifier = createHash('sha256').update(form.get('code_verifier') ?? '');
    if (!code || code.challenge !== verifier.digest('base64url')) return refuse('invalid_grant');
    return give(code.scope);
  };

  const authorizePage = ({ searchParams: asked }: URL): Response => {
    log.push(`authorize ${asked.get('scope') ?? ''}`.trim());
    const code = `code-${(count += 1)}`;
    const challenge = asked.get('code_challenge') ?? '';
    codes.set(code, { challenge, scope: asked.get('scope') ?? '' });
    const back = new URL(asked.get('redirect_uri')!);
    const told = { code, state: asked.get('state') ?? '', iss: server.url, ...script.back };
    for (const [key, value] of Object.entries(told)) back.searchParams.set(key, value);
    return new Response(null, { status: 302, headers: { location: back.href } });
  };

  const server = await listen(async (request) => {
    const url = new URL(request.url);
    switch (url.pathname) {
      case '/.well-known/oauth-authorization-server':
        return Response.json({
          issuer: server.url,
          authorization_endpoint: `${server.url}/authorize`,
          token_endpoint: `${server.url}/token`,
          registration_endpoint: `${server.url}/register`,
          code_challenge_methods_supported: ['S256'],
          token_endpoint_auth_methods_supported: ['none'],
          ...script.metadata,
        });
      case '/register':
        log.push('register');
        return Response.json({ client_id: `client-${(count += 1)}` }, { status: 201 });
      case '/authorize':
        return authorizePage(url);
      case '/token':
        return token(request);
      default:
        return new Response(null, { status: 404 });
    }
  });

  const handler = mcpHandler(source);
  const mcp = await listen(async (request) => {
    const url = new URL(request.url);
    const described = `${mcp.url}/.well-known/oauth-protected-resource/mcp`;
    if (url.href === described)
      return Response.json({
        resource: `${mcp.url}/mcp`,
        authorization_servers: [server.url],
        scopes_supported: ['mcp:use'],
        ...script.resource,
      });
    if (url.pathname !== '/mcp') return new Response(null, { status: 404 });
    const challenge = (status: number, what: string): Response =>
      new Response(null, {
        status,
        headers: { 'www-authenticate': `Bearer ${what}, resource_metadata="${described}"` },
      });
    const scope = tokens.get(request.headers.get('authorization')?.slice(7) ?? '');
    if (scope === undefined) return challenge(401, 'error="invalid_token"');
    const { callScope } = script;
    const calls = request.headers.get('mcp-method') === 'tools/call';
    if (calls && callScope !== undefined && !scope.split(' ').includes(callScope))
      return challenge(403, `error="insufficient_scope", scope="${callScope}"`);
    return handler.handle(request);
  });

  return {
    url: `${mcp.url}/mcp`,
    issuer: server.url,
    log,
    get form() {
      return form;
    },
    async authorize(page) {
      const { headers } = await fetch(page, { redirect: 'manual' });
      return new URL(headers.get('location')!);
    },
    expire: () => tokens.clear(),
    revoke: () => refreshes.clear(),
    async [Symbol.asyncDispose]() {
      await handler[Symbol.asyncDispose]();
      await mcp[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}
