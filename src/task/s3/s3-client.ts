import { createHash } from 'node:crypto';
import type { AwsV4Signer } from 'aws4fetch';
import { DuolaneError, errorMessage } from '../../errors.ts';
import { sleep } from '../../stream/abort.ts';
import type { Abortable } from '../../stream/types.ts';
import { xmlValues } from './xml-values.ts';

export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Of credentials that expire. */
  readonly sessionToken?: string;
}

/** Where a bucket is, and who may use it. */
export interface S3Options {
  /**
   * The address of the service, such as `https://minio.example.com`; by default that of Amazon S3
   * in the region.
   */
  readonly endpoint?: string;
  /** An existing bucket. */
  readonly bucket: string;
  /** `us-east-1` by default; some services want `auto`. */
  readonly region?: string;
  /** The credentials, or a function that is called for each request: for ones that expire. */
  readonly credentials: S3Credentials | (() => S3Credentials | Promise<S3Credentials>);
  /** Begins the key of every object, such as `app/blobs/`. Empty by default. */
  readonly prefix?: string;
  /**
   * Whether the bucket is in the path of addresses and not in their host name; true by default with
   * an `endpoint`.
   */
  readonly forcePathStyle?: boolean;
}

export interface S3Request extends Abortable {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** The key of an object; absent for a request about the bucket. */
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Fewer attempts than usual, for a cleanup after a failure. */
  readonly attempts?: number;
}

const ATTEMPTS = 5;
const FIRST_WAIT_MS = 100;
const MAX_WAIT_MS = 5000;
/** How long a service may take until its response begins, the upload of the body included. */
const RESPONSE_MS = 60_000;
/** The limit for a reply in XML; a page of 1,000 keys is shorter. */
const MAX_XML_BYTES = 4 << 20;

type Signer = typeof AwsV4Signer;

/**
 * Sends signed requests to a bucket. Repeats those that failed in a way that may pass: a broken
 * connection, 429, 500, 502, 503 (`SlowDown`), 504, and 400 with `RequestTimeout`. An error has no
 * part of the credentials or of a reply, except the error code of the service.
 */
export class S3Client {
  readonly #signer: Signer;
  readonly #address: string;
  readonly #options: S3Options;
  readonly #region: string;
  /** The signing keys that the signer keeps: one for each day and secret. */
  #keys = new Map<string, ArrayBuffer>();

  constructor(signer: Signer, options: S3Options) {
    this.#signer = signer;
    this.#options = options;
    this.#region = options.region ?? 'us-east-1';
    this.#address = addressOf(options, this.#region);
    if (typeof options.credentials !== 'function') checkCredentials(options.credentials);
  }

  /** Resolves with a successful response, whose body the caller reads or cancels. */
  send(request: S3Request): Promise<Response> {
    return this.#repeat(request, async (response) => response);
  }

  /** Sends a request and reads the reply as text. Some replies with status 200 are errors. */
  sendForXml(request: S3Request): Promise<string> {
    return this.#repeat(request, async (response) => {
      const xml = await readText(response, MAX_XML_BYTES);
      if (xml.includes('<Error>')) throw this.#failure(request, response.status, xml);
      return xml;
    });
  }

  async #repeat<T>(request: S3Request, read: (response: Response) => Promise<T>): Promise<T> {
    const { signal, attempts = ATTEMPTS } = request;
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted();
      try {
        return await this.#attempt(request, read);
      } catch (error) {
        signal?.throwIfAborted();
        if (!DuolaneError.from(error).retryable || attempt >= attempts) throw error;
      }
      const waitMs = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt);
      await sleep(waitMs * (0.5 + Math.random() / 2), signal);
    }
  }

  async #attempt<T>(request: S3Request, read: (response: Response) => Promise<T>): Promise<T> {
    const init = await this.#sign(request);
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), RESPONSE_MS);
    try {
      const response = await fetch(init.url, {
        ...init,
        signal: request.signal ? AbortSignal.any([request.signal, limit.signal]) : limit.signal,
        // A redirect needs another signature; it says that the region or the endpoint is wrong.
        redirect: 'manual',
      });
      if (response.ok) return await read(response);
      throw this.#failure(request, response.status, await readText(response, MAX_XML_BYTES));
    } catch (cause) {
      if (cause instanceof DuolaneError) throw cause;
      if (limit.signal.aborted)
        throw new DuolaneError('timeout', `S3 timed out after ${RESPONSE_MS} ms: no response`);
      const { cause: reason = cause } = cause as Error;
      throw new DuolaneError('network', `cannot reach S3: ${errorMessage(reason)}`, { cause });
    } finally {
      clearTimeout(timer);
    }
  }

  async #sign({ method, key, query = {}, headers = {}, body }: S3Request): Promise<{
    readonly url: string;
    readonly method: string;
    readonly headers: Headers;
    readonly body: Uint8Array<ArrayBuffer> | null;
  }> {
    const url = new URL(key === undefined ? this.#address : `${this.#address}/${key}`);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const { credentials } = this.#options;
    const current = typeof credentials === 'function' ? await credentials() : credentials;
    const { accessKeyId, secretAccessKey, sessionToken } = checkCredentials(current);
    // Credentials that expire have a new key each time.
    if (this.#keys.size > 10) this.#keys = new Map();
    const signer = new this.#signer({
      method,
      url: url.href,
      headers: {
        ...headers,
        'x-amz-content-sha256': createHash('sha256')
          .update(body ?? '')
          .digest('hex'),
      },
      accessKeyId,
      secretAccessKey,
      ...(sessionToken !== undefined && { sessionToken }),
      service: 's3',
      region: this.#region,
      cache: this.#keys,
    });
    const signed = await signer.sign();
    // Not signed, since proxies change it. Compressed bytes would not be those of a range.
    signed.headers.set('accept-encoding', 'identity');
    return {
      url: signed.url.href,
      method,
      headers: signed.headers,
      body: body ? new Uint8Array(body.buffer as ArrayBuffer, body.byteOffset, body.length) : null,
    };
  }

  #failure({ method, key }: S3Request, status: number, xml: string): DuolaneError {
    const given = xmlValues(xml, 'Code')[0] ?? '';
    const code = /^[A-Za-z]{1,64}$/.test(given) ? given : '';
    const what = `${method} ${key === undefined ? 'of the bucket' : 'of an object'}`;
    const text = `S3 failed: ${method === 'HEAD' ? 'HEAD' : what}, status ${status}${code && ` (${code})`}`;
    const passes = status === 500 || (status >= 502 && status <= 504) || status === 429;
    const isPassing = passes || PASSING.has(code);
    const isMissing = status === 404 && code !== 'NoSuchBucket';
    return new DuolaneError(
      isMissing ? 'not_found' : isPassing && status !== 500 ? 'overloaded' : 'server',
      `${text}${hintOf(status, code)}`,
      { retryable: isPassing, status },
    );
  }
}

/** Codes of failures that may pass, whatever their status is. */
const PASSING = new Set(['RequestTimeout', 'SlowDown', 'InternalError', 'ServiceUnavailable']);

function hintOf(status: number, code: string): string {
  if (status >= 300 && status < 400) return '; check endpoint, region and forcePathStyle';
  if (code === 'NoSuchBucket') return '; create the bucket, or check its name';
  if (status === 401 || status === 403) return '; check the credentials and their rights';
  return '';
}

function addressOf(options: S3Options, region: string): string {
  const { bucket, endpoint, forcePathStyle = endpoint !== undefined } = options;
  const invalid = (what: string): DuolaneError =>
    new DuolaneError('invalid', `invalid option of s3Blobs(): ${what}`);
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$/.test(bucket))
    throw invalid(`expected the name of a bucket, not ${JSON.stringify(bucket)}`);
  if (!/^[A-Za-z0-9-]{1,40}$/.test(region))
    throw invalid(`expected the name of a region, not ${JSON.stringify(region)}`);
  const given = endpoint ?? `https://s3.${region}.amazonaws.com`;
  const url = URL.canParse(given) ? new URL(given) : undefined;
  // The message does not repeat the address: it may contain a password.
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search)
    throw invalid('endpoint must be an http or https address without user, password and query');
  if (!forcePathStyle) url.hostname = `${bucket}.${url.hostname}`;
  const path = url.pathname.endsWith('/') ? url.pathname.slice(0, -1) : url.pathname;
  return `${url.origin}${path}${forcePathStyle ? `/${bucket}` : ''}`;
}

// A line break, for example of a file, makes an invalid header, and the error about it would have
// the value.
function checkCredentials(credentials: S3Credentials): S3Credentials {
  const { accessKeyId, secretAccessKey, sessionToken = 'none' } = credentials;
  for (const value of [accessKeyId, secretAccessKey, sessionToken])
    if (typeof value !== 'string' || !/^[\x21-\x7e]+$/.test(value))
      throw new DuolaneError(
        'invalid',
        'invalid credentials of s3Blobs(): expected texts without spaces and line breaks',
      );
  return credentials;
}

async function readText(response: Response, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes)
      throw new DuolaneError('malformed', `S3 sent a reply of more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
