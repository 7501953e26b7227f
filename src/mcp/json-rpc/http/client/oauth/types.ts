import type { JsonObject } from '../../../../../json.ts';
import type { Abortable } from '../../../../../stream/types.ts';

/** A client that is registered at the authorization server. */
export interface OAuthClient {
  readonly id: string;
  /** The client secret. It needs `issuer`: a secret is sent to no other authorization server. */
  readonly secret?: string;
  /** A PKCS#8 key in PEM. The client then authenticates with a signed JWT instead of a secret. */
  readonly privateKey?: string;
  /** The algorithm of the key; by default the first that the server names, or ES256. */
  readonly algorithm?: string;
  /**
   * The only authorization server that this client is for. Without a secret it may be omitted, for
   * any server.
   */
  readonly issuer?: string;
}

/**
 * Stores what must outlive the process, so that a person need not log in again. Values are secrets.
 */
export interface OAuthStore {
  load(name: string): Promise<JsonObject | undefined>;
  /** Stores a value; `undefined` deletes it. */
  save(name: string, value: JsonObject | undefined): Promise<void>;
}

/**
 * How to log in where a server requires OAuth. With `authorize` a person logs in (authorization
 * code with PKCE); without it the client itself does (client credentials), which needs `client`.
 */
export interface OAuthOptions {
  /**
   * The browser step: sends a person to this address and resolves with the complete address that
   * they returned to, a URL under `redirectUrl`. Its errors become those of the call.
   */
  readonly authorize?: (url: URL, options: Abortable) => Promise<URL | string>;
  /** The address that the person returns to; required with `authorize`. */
  readonly redirectUrl?: string | URL;
  readonly client?: OAuthClient;
  /**
   * The address of a document that describes this client. It is the client id where the server
   * supports that.
   */
  readonly clientMetadataUrl?: string;
  /** The name that the person sees if the client has to be registered; `duolane` by default. */
  readonly clientName?: string;
  /** In memory by default, lost with the connection. */
  readonly store?: OAuthStore;
}
