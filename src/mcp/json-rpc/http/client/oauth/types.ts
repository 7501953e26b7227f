import type { JsonObject } from '../../../../../json.ts';
import type { Abortable } from '../../../../../stream/types.ts';

/** A client that the authorization server knows already. */
export interface OAuthClient {
  readonly id: string;
  /** Needs `issuer`: a secret is sent to no other authorization server. */
  readonly secret?: string;
  /** PKCS#8 in PEM: the client then proves itself with a signed JWT instead of a secret. */
  readonly privateKey?: string;
  /** Of the key; by default the first that the server names, or ES256. */
  readonly algorithm?: string;
  /** The only authorization server that this client is for. Any, if there is no secret. */
  readonly issuer?: string;
}

/** What must outlive the process, if a person is not to log in again. Values are secrets. */
export interface OAuthStore {
  load(name: string): Promise<JsonObject | undefined>;
  /** `undefined` forgets it. */
  save(name: string, value: JsonObject | undefined): Promise<void>;
}

/**
 * How to get in where a server wants OAuth. With `authorize` a person logs in (authorization code
 * with PKCE); without it the client itself does (client credentials), which needs `client`.
 */
export interface OAuthOptions {
  /**
   * The browser step: brings a person to this address and resolves with the whole address to which
   * they were sent back, a URL under `redirectUrl`. What it throws is what the call throws.
   */
  readonly authorize?: (url: URL, options: Abortable) => Promise<URL | string>;
  /** Where the person is sent back to; needed with `authorize`. */
  readonly redirectUrl?: string | URL;
  readonly client?: OAuthClient;
  /** Address of a document that describes this client: its id where the server takes such. */
  readonly clientMetadataUrl?: string;
  /** Shown to the person where the client has to be registered; `duolane` by default. */
  readonly clientName?: string;
  /** In memory by default, gone with the connection. */
  readonly store?: OAuthStore;
}
