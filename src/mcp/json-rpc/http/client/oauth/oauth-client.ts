import { randomUUID } from 'node:crypto';
import { unauthorized } from '../../../../../errors.ts';
import type { JsonObject } from '../../../../../json.ts';
import { supports, type Realm } from './discovery.ts';
import { type Documents, urlIn } from './documents.ts';
import type { OAuthClient, OAuthOptions, OAuthStore } from './types.ts';

/** A client as one authorization server knows it. */
export interface KnownClient extends OAuthClient {
  /** How it authenticates at the token endpoint. */
  readonly method: 'none' | 'client_secret_basic' | 'client_secret_post' | 'private_key_jwt';
}

/**
 * Returns our client for an authorization server: the configured one, the one of the metadata
 * document, or one that is registered there. Each server gets its own registration, so that no
 * server sees the data of another.
 */
export async function clientFor(
  realm: Realm,
  documents: Documents,
  options: OAuthOptions,
  store: OAuthStore,
): Promise<KnownClient> {
  const { client, clientMetadataUrl } = options;
  const { issuer, metadata } = realm;
  if (client && (client.issuer === undefined || client.issuer === issuer))
    return { ...client, method: methodOf(client, metadata) };
  if (clientMetadataUrl !== undefined && metadata['client_id_metadata_document_supported'] === true)
    return { id: clientMetadataUrl, method: 'none' };
  const name = clientName(realm);
  const known = await store.load(name);
  const registered = known ?? (await register(realm, documents, options));
  if (!known) await store.save(name, registered);
  return fromRegistration(registered, metadata);
}

/** The store key of a registration. */
export const clientName = ({ issuer }: Realm): string => `client of ${issuer}`;

async function register(
  { issuer, metadata }: Realm,
  documents: Documents,
  { redirectUrl, clientName = 'duolane' }: OAuthOptions,
): Promise<JsonObject> {
  const endpoint = urlIn(metadata, 'registration_endpoint');
  if (!endpoint || redirectUrl === undefined)
    throw unauthorized(`${issuer} does not register clients; set the option oauth.client`);
  const { hostname, protocol } = new URL(redirectUrl);
  const local = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
  const body = {
    client_name: clientName,
    redirect_uris: [String(redirectUrl)],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    application_type: local || !protocol.startsWith('http') ? 'native' : 'web',
    token_endpoint_auth_method: preferred(metadata),
  };
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  return documents.post(endpoint, JSON.stringify(body), headers);
}

const METHODS = ['client_secret_basic', 'client_secret_post', 'none'] as const;

/** Servers that list no method support the first (RFC 8414). */
const preferred = ({ token_endpoint_auth_methods_supported: known }: JsonObject): string =>
  METHODS.find((method) => !Array.isArray(known) || known.includes(method)) ?? 'none';

function fromRegistration(registered: JsonObject, metadata: JsonObject): KnownClient {
  const { client_id: id, client_secret: secret, token_endpoint_auth_method: told } = registered;
  if (typeof id !== 'string')
    throw unauthorized(
      'the authorization server sent a registration without client_id: expected a string',
    );
  const client = { id, ...(typeof secret === 'string' && secret !== '' && { secret }) };
  const method = METHODS.find((each) => each === told);
  return { ...client, method: method ?? methodOf(client, metadata) };
}

function methodOf(
  { secret, privateKey }: OAuthClient,
  { token_endpoint_auth_methods_supported: known }: JsonObject,
): KnownClient['method'] {
  if (privateKey !== undefined) return 'private_key_jwt';
  if (secret === undefined) return 'none';
  const post = supports(known, 'client_secret_post') && !supports(known, 'client_secret_basic');
  return post ? 'client_secret_post' : 'client_secret_basic';
}

/** Adds the authentication of the client to a token request. */
export async function sign(
  form: URLSearchParams,
  client: KnownClient,
  { issuer, metadata }: Realm,
): Promise<Readonly<Record<string, string>>> {
  const { id, secret = '', method } = client;
  if (method === 'client_secret_basic') {
    const pair = `${encodeURIComponent(id)}:${encodeURIComponent(secret)}`;
    return { authorization: `Basic ${Buffer.from(pair, 'utf8').toString('base64')}` };
  }
  form.set('client_id', id);
  if (method === 'client_secret_post') form.set('client_secret', secret);
  if (method === 'private_key_jwt') {
    form.set('client_assertion_type', 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer');
    form.set('client_assertion', await assertion(client, issuer, metadata));
  }
  return {};
}

async function assertion(
  { id, privateKey = '', algorithm }: KnownClient,
  issuer: string,
  { token_endpoint_auth_signing_alg_values_supported: known }: JsonObject,
): Promise<string> {
  const { importPKCS8, SignJWT } = await import('jose');
  const alg = algorithm ?? (Array.isArray(known) ? String(known[0]) : 'ES256');
  const key = await importPKCS8(privateKey, alg);
  return new SignJWT()
    .setProtectedHeader({ alg })
    .setIssuer(id)
    .setSubject(id)
    .setAudience(issuer)
    .setJti(randomUUID())
    .setIssuedAt()
    .setExpirationTime('5m')
    .sign(key);
}
