import { DuolaneError } from '../../errors.ts';
import { omitUndefined } from '../../json.ts';
import {
  BLOB_NAME,
  blobFolder,
  blobMissing,
  blobRange,
  limitedBytes,
  MAX_BLOB_BYTES,
  newBlobId,
  ownerOnly,
  piecesOf,
  splitBlobId,
} from '../blobs/blob-rules.ts';
import type { Blob, BlobInfo, BlobRange, BlobRules, BlobStore } from '../blobs/types.ts';
import { S3Client, type S3Options } from './s3-client.ts';
import { xmlText, xmlValues } from './xml-values.ts';

export interface S3BlobOptions extends S3Options, BlobRules {
  /**
   * The size of the parts in which larger blobs are sent; 8 MiB by default, at least 5 MiB. A
   * writer has about two parts in memory.
   */
  readonly partBytes?: number;
}

const PART_BYTES = 8 << 20;
const MIN_PART_BYTES = 5 << 20;
const MAX_PARTS = 10_000;
/** S3 allows 2 KB of metadata for an object. */
const MAX_DESCRIPTION = 1900;
const DESCRIPTION = 'x-amz-meta-duolane';
/** How often a body that breaks off is requested again without a byte in between. */
const BODY_ATTEMPTS = 4;
const DELETES_AT_ONCE = 8;

type Description = Omit<BlobInfo, 'bytes'>;

/**
 * Stores blobs as objects of a bucket: Amazon S3, or a service with the same interface. Blobs that
 * are larger than a part are sent in parts, and an object becomes visible only when it is complete.
 * Needs the package `aws4fetch`, and the rights to read, write, delete and list the objects.
 *
 * A process that crashes while it sends parts leaves them in the bucket, where no request sees
 * them; give the bucket a rule that deletes incomplete multipart uploads after a day.
 *
 * @example
 * ```ts
 * const { S3_KEY: accessKeyId = '', S3_SECRET: secretAccessKey = '' } = process.env;
 * const credentials = { accessKeyId, secretAccessKey };
 * const blobs = await s3Blobs({ bucket: 'app', region: 'eu-central-1', credentials });
 * const info = await blobs.put({ task: 't1', mediaType: 'text/csv' }, [bytes]);
 * ```
 */
export async function s3Blobs(options: S3BlobOptions): Promise<BlobStore> {
  const { AwsV4Signer } = await import('aws4fetch').catch((cause: unknown) => {
    const message = 's3Blobs() needs the package aws4fetch: npm install aws4fetch';
    throw new DuolaneError('unsupported', message, { cause });
  });
  return new S3Blobs(new S3Client(AwsV4Signer, options), options);
}

class S3Blobs implements BlobStore {
  readonly #client: S3Client;
  readonly #prefix: string;
  readonly #partBytes: number;
  readonly #maxBytes: number;
  readonly #mayRead: NonNullable<BlobRules['mayRead']>;

  constructor(client: S3Client, options: S3BlobOptions) {
    const { maxBytes = MAX_BLOB_BYTES, mayRead = ownerOnly, partBytes = PART_BYTES } = options;
    if (!(partBytes >= MIN_PART_BYTES))
      throw new DuolaneError(
        'invalid',
        `invalid partBytes ${partBytes}: expected at least ${MIN_PART_BYTES}, as S3 does`,
      );
    this.#client = client;
    this.#prefix = readPrefix(options.prefix);
    this.#partBytes = Math.max(partBytes, Math.ceil(maxBytes / MAX_PARTS));
    this.#maxBytes = maxBytes;
    this.#mayRead = mayRead;
  }

  async put(...[blob, bytes, { signal } = {}]: Parameters<BlobStore['put']>): Promise<BlobInfo> {
    const description: Description = { ...blob, id: newBlobId(blob.task) };
    const headers = {
      [DESCRIPTION]: encodeDescription(description),
      'content-type': 'application/octet-stream',
    };
    const key = this.#keyOf(description.id);
    const upload = new ObjectUpload(this.#client, key, headers, signal);
    let size = 0;
    try {
      const source = limitedBytes(bytes, this.#maxBytes, signal);
      for await (const piece of piecesOf(source, this.#partBytes)) {
        size += piece.byteLength;
        if (piece.byteLength === this.#partBytes || upload.hasParts) await upload.addPart(piece);
        else await upload.putObject(piece);
      }
      if (size === 0) await upload.putObject(new Uint8Array());
      else if (upload.hasParts) await upload.complete(size);
      return { ...description, bytes: size };
    } catch (error) {
      await upload.discard();
      throw error;
    }
  }

  async get(...[id, options = {}]: Parameters<BlobStore['get']>): Promise<Blob> {
    const { start, end, caller, signal } = options;
    const key = this.#keyOf(id);
    const info = await this.#describe(id, key, signal);
    if (!info || !(await this.#mayRead(info, caller))) throw blobMissing(id);
    const range = blobRange(info, omitUndefined<BlobRange>({ start, end }));
    return { info, range, body: this.#read(key, info, range, signal) };
  }

  async removeTask(task: string): Promise<void> {
    const prefix = `${this.#prefix}${blobFolder(task)}/`;
    for (let token: string | undefined = ''; token !== undefined;) {
      const query = { 'list-type': '2', prefix, ...(token && { 'continuation-token': token }) };
      const xml = await this.#client.sendForXml({ method: 'GET', query });
      // A service that ignores the prefix must not make us delete objects of others; neither must a
      // key with `..`, which an address does not keep.
      const keys = xmlValues(xml, 'Key').filter(
        (key) => key.startsWith(prefix) && BLOB_NAME.test(key.slice(prefix.length)),
      );
      for (let at = 0; at < keys.length; at += DELETES_AT_ONCE)
        await Promise.all(
          keys.slice(at, at + DELETES_AT_ONCE).map((key) => deleteObject(this.#client, key)),
        );
      const more = xmlValues(xml, 'IsTruncated')[0] === 'true';
      token = more ? xmlValues(xml, 'NextContinuationToken')[0] : undefined;
    }
  }

  #keyOf(id: string): string {
    const { folder, name } = splitBlobId(id);
    return `${this.#prefix}${folder}/${name}`;
  }

  async #describe(
    id: string,
    key: string,
    signal: AbortSignal | undefined,
  ): Promise<BlobInfo | undefined> {
    const { headers } = await this.#client
      .send({ method: 'HEAD', key, ...(signal && { signal }) })
      .catch((error: unknown) => {
        throw error instanceof DuolaneError && error.code === 'not_found' ? blobMissing(id) : error;
      });
    const described = decodeDescription(headers.get(DESCRIPTION));
    // An object that another program has put there is not a blob.
    if (described?.id !== id) return undefined;
    return { ...described, bytes: Number(headers.get('content-length')) };
  }

  /** A body that breaks off goes on with a request for the rest: a blob never changes. */
  async *#read(
    key: string,
    { id, bytes }: BlobInfo,
    { start, end }: Blob['range'],
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Uint8Array, void> {
    let failures = 0;
    for (let at = start; bytes > 0 && at <= end;) {
      const headers = { range: `bytes=${at}-${end}` };
      const response = await this.#client
        .send({ method: 'GET', key, headers, ...(signal && { signal }) })
        .catch((error: unknown) => {
          throw error instanceof DuolaneError && error.code === 'not_found'
            ? blobMissing(id)
            : error;
        });
      const isComplete = at === 0 && end === bytes - 1;
      if (response.status !== 206 && !isComplete) {
        await response.body?.cancel();
        throw new DuolaneError('unsupported', 'S3 ignored a range; it must support ranges');
      }
      const pieces = bodyPieces(response);
      for (;;) {
        const next = await pieces
          .next()
          .catch((cause: unknown) => ({ done: true, cause }) as const);
        if (next.done) {
          signal?.throwIfAborted();
          const cause = 'cause' in next ? next.cause : undefined;
          if (at <= end && ++failures === BODY_ATTEMPTS)
            throw new DuolaneError('network', 'S3 broke off the bytes of a blob', { cause });
          break;
        }
        failures = 0;
        const piece = next.value.subarray(0, end + 1 - at);
        at += piece.byteLength;
        let isRead = false;
        try {
          yield piece;
          isRead = true;
        } finally {
          if (!isRead) await pieces.return();
        }
      }
    }
  }
}

async function* bodyPieces(response: Response): AsyncGenerator<Uint8Array, void> {
  yield* response.body ?? [];
}

/** The upload of one object, in one request or in parts. */
class ObjectUpload {
  readonly #client: S3Client;
  readonly #key: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #abortable: { readonly signal?: AbortSignal };
  readonly #tags: string[] = [];
  #uploadId: string | undefined;
  /** Whether the object may exist: a request without a reply may have been done. */
  #mayExist = false;

  constructor(
    client: S3Client,
    key: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal | undefined,
  ) {
    this.#client = client;
    this.#key = key;
    this.#headers = headers;
    this.#abortable = signal ? { signal } : {};
  }

  get hasParts(): boolean {
    return this.#uploadId !== undefined;
  }

  async putObject(body: Uint8Array): Promise<void> {
    this.#mayExist = true;
    const [key, headers] = [this.#key, this.#headers];
    await drained(this.#client.send({ method: 'PUT', key, headers, body, ...this.#abortable }));
  }

  async addPart(body: Uint8Array): Promise<void> {
    this.#uploadId ??= await this.#start();
    const query = { partNumber: String(this.#tags.length + 1), uploadId: this.#uploadId };
    const key = this.#key;
    const sent = this.#client.send({ method: 'PUT', key, query, body, ...this.#abortable });
    const tag = (await drained(sent)).headers.get('etag');
    if (tag === null) throw new DuolaneError('malformed', 'S3 sent no ETag for a part');
    this.#tags.push(tag);
  }

  async complete(bytes: number): Promise<void> {
    this.#mayExist = true;
    const [key, uploadId = ''] = [this.#key, this.#uploadId];
    const parts = this.#tags.map(
      (tag, index) =>
        `<Part><PartNumber>${index + 1}</PartNumber><ETag>${xmlText(tag)}</ETag></Part>`,
    );
    const xml = `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts.join('')}</CompleteMultipartUpload>`;
    const headers = { 'content-type': 'application/xml' };
    const request = { key, query: { uploadId }, headers, body: Buffer.from(xml) };
    try {
      await this.#client.sendForXml({ method: 'POST', ...request, ...this.#abortable });
    } catch (error) {
      // The reply to the first attempt may be lost. For the second one, the upload is over.
      if (!(error instanceof DuolaneError) || error.code !== 'not_found') throw error;
      const head = await this.#client.send({ method: 'HEAD', key, ...this.#abortable });
      if (Number(head.headers.get('content-length')) !== bytes) throw error;
    }
  }

  /** Deletes what a failed upload left. A failure leaves parts that no request sees. */
  async discard(): Promise<void> {
    const [key, uploadId] = [this.#key, this.#uploadId];
    if (uploadId !== undefined)
      await drained(
        this.#client.send({ method: 'DELETE', key, query: { uploadId }, attempts: 2 }),
      ).catch(() => {}); // see above
    if (this.#mayExist) await deleteObject(this.#client, key, 2).catch(() => {}); // see above
  }

  async #start(): Promise<string> {
    const [key, headers, query] = [this.#key, this.#headers, { uploads: '' }];
    const xml = await this.#client.sendForXml({
      method: 'POST',
      key,
      query,
      headers,
      ...this.#abortable,
    });
    const uploadId = xmlValues(xml, 'UploadId')[0];
    if (uploadId === undefined)
      throw new DuolaneError('malformed', 'S3 sent no UploadId for a multipart upload');
    return uploadId;
  }
}

/** Frees the connection of a response whose body is not needed. */
async function drained(sent: Promise<Response>): Promise<Response> {
  const response = await sent;
  await response.body?.cancel();
  return response;
}

/** An object that does not exist counts as deleted, as in S3. */
async function deleteObject(client: S3Client, key: string, attempts?: number): Promise<void> {
  const request = { method: 'DELETE', key, ...(attempts !== undefined && { attempts }) } as const;
  await drained(client.send(request)).catch((error: unknown) => {
    if (!(error instanceof DuolaneError) || error.code !== 'not_found') throw error;
  });
}

function readPrefix(given = ''): string {
  const parts = given.split('/').filter((part) => part !== '');
  if (parts.some((part) => !/^[A-Za-z0-9._-]+$/.test(part) || /^\.+$/.test(part)))
    throw new DuolaneError(
      'invalid',
      `invalid prefix ${JSON.stringify(given)} of s3Blobs(): expected letters, digits, ".", "_", "-" and "/"`,
    );
  return parts.map((part) => `${part}/`).join('');
}

function encodeDescription(description: Description): string {
  const text = Buffer.from(JSON.stringify(description)).toString('base64url');
  if (text.length <= MAX_DESCRIPTION) return text;
  throw new DuolaneError(
    'too_large',
    `task, owner, mediaType and filename of a blob have ${text.length} bytes; S3 stores at most ${MAX_DESCRIPTION}`,
  );
}

function decodeDescription(text: string | null): Description | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(text ?? '', 'base64url').toString());
    return typeof value === 'object' && value !== null ? (value as Description) : undefined;
  } catch {
    return undefined; // not written by us
  }
}
