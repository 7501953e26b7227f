import type { LightResponse } from '../../../../../http/light-fetch.ts';
import { type DuolaneError, invalid } from '../../../../../errors.ts';
import type { JsonObject } from '../../../../../json.ts';
import { raceAbort } from '../../../../../stream/abort.ts';
import type { Authorizer } from '../http-exchange.ts';
import { type Challenge, readChallenge } from './challenge.ts';
import { clientFor, clientName } from './oauth-client.ts';
import { discoverServer } from './discovery.ts';
import type { Fetch } from '../../../../../http/light-fetch.ts';
import { Documents, OAuthRefusal } from './documents.ts';
import {
  type RealmClient,
  keptToken,
  logIn,
  refresh,
  scopeFor,
  type Token,
  useCredentials,
} from './grant.ts';
import type { OAuthOptions, OAuthStore } from './types.ts';

/** A token that expires sooner than this is refreshed first. */
const SPARE_MS = 30_000;

/**
 * Logs in to one server when it requires that, and keeps its token fresh. There is one login at a
 * time for all callers; a caller that aborts does not end it, closing does.
 */
export class OAuth implements Authorizer {
  readonly #server: URL;
  readonly #options: OAuthOptions;
  readonly #store: OAuthStore;
  readonly #scope = new AbortController();
  readonly #documents: Documents;
  #token: Token | undefined;
  #loaded: Promise<void> | undefined;
  #working: Promise<void> | undefined;

  constructor(server: URL, options: OAuthOptions, fetch?: Fetch) {
    this.#server = server;
    this.#options = options;
    this.#store = options.store ?? memory();
    checkClient(options);
    this.#documents = new Documents(fetch, this.#scope.signal, server);
  }

  async headers(signal: AbortSignal): Promise<Readonly<Record<string, string>>> {
    await (this.#loaded ??= this.#load());
    const { expiresAt = Infinity, refreshToken } = this.#token ?? {};
    if (refreshToken !== undefined && expiresAt < Date.now() + SPARE_MS)
      await this.#once(signal, () => this.#renew({}));
    return this.#token ? { authorization: `Bearer ${this.#token.accessToken}` } : {};
  }

  async refused(
    { status, headers }: LightResponse,
    used: string | undefined,
    signal: AbortSignal,
  ): Promise<boolean> {
    const challenge = readChallenge(headers.get('www-authenticate'));
    const current = this.#token && `Bearer ${this.#token.accessToken}`;
    // Another request has logged in since this one was sent.
    if (status === 401 && current !== undefined && current !== used) return true;
    if (status === 403 && !this.#lacks(challenge)) return false;
    await this.#once(signal, () =>
      status === 401 ? this.#renew(challenge) : this.#enter(challenge),
    );
    return true;
  }

  get isWorking(): boolean {
    return this.#working !== undefined;
  }

  close(reason: DuolaneError): void {
    this.#scope.abort(reason);
  }

  /**
   * Whether a refusal names scopes that we have not requested: requesting the same scopes again is
   * useless.
   */
  #lacks({ error, scope = '' }: Challenge): boolean {
    const had = new Set((this.#token?.scope ?? '').split(' '));
    return error === 'insufficient_scope' && scope.split(' ').some((word) => !had.has(word));
  }

  /** Loads the stored token. After a failure the next request tries again. */
  async #load(): Promise<void> {
    try {
      this.#token = keptToken(await this.#store.load(this.#name));
    } catch (error) {
      this.#loaded = undefined;
      throw error;
    }
  }

  get #name(): string {
    return `token for ${this.#server.href}`;
  }

  /** Refreshes the token if possible, else logs in again. */
  async #renew(challenge: Challenge): Promise<void> {
    const entry = await this.#find(challenge);
    const token = this.#token;
    const same = token?.refreshToken !== undefined && token.issuer === entry.realm.issuer;
    const renewed = same ? await refresh(entry, token) : undefined;
    if (renewed) return this.#keep(renewed);
    await this.#keep(undefined);
    await this.#login(entry, challenge, undefined);
  }

  async #enter(challenge: Challenge): Promise<void> {
    await this.#login(await this.#find(challenge), challenge, this.#token?.scope);
  }

  async #find(challenge: Challenge): Promise<RealmClient> {
    const documents = this.#documents;
    const realm = await discoverServer(documents, this.#server, challenge);
    const client = await clientFor(realm, documents, this.#options, this.#store);
    return { realm, client, documents };
  }

  async #login(entry: RealmClient, challenge: Challenge, had: string | undefined): Promise<void> {
    const { realm } = entry;
    const person = this.#options.authorize !== undefined;
    const scope = scopeFor(had, challenge.scope ?? realm.scope, realm.metadata, person);
    const token = person
      ? logIn(entry, scope, this.#options, this.#scope.signal)
      : useCredentials(entry, scope);
    try {
      await this.#keep(await token);
    } catch (error) {
      // The server has deleted this client: forget it, so that the next login registers a new one.
      if (error instanceof OAuthRefusal && error.error === 'invalid_client')
        await this.#store.save(clientName(realm), undefined);
      throw error;
    }
  }

  async #keep(token: Token | undefined): Promise<void> {
    this.#token = token;
    await this.#store.save(this.#name, token as JsonObject | undefined);
  }

  /** Runs the work once for all concurrent callers. An abort ends only the wait of its caller. */
  async #once(signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    this.#working ??= work().finally(() => (this.#working = undefined));
    await raceAbort(this.#working, signal);
  }
}

/**
 * Refuses a secret without its issuer: it would be sent to any authorization server that the tool
 * server names.
 */
function checkClient({ client }: OAuthOptions): void {
  if (client?.secret === undefined || client.issuer !== undefined) return;
  throw invalid(
    'missing option "oauth.client.issuer": a client secret is sent only to the issuer that it is for; ' +
      'set the issuer of your authorization server, e.g. https://login.example.com',
  );
}

/** A store that is lost with the connection. */
function memory(): OAuthStore {
  const kept = new Map<string, JsonObject>();
  return {
    load: async (name) => kept.get(name),
    async save(name, value) {
      if (value) kept.set(name, value);
      else kept.delete(name);
    },
  };
}
