import { DuolaneError } from '../errors.ts';
import { omitUndefined } from '../json.ts';
import { type BlobStore, fileBlobs } from '../task/blob-store.ts';
import type { S3Credentials } from '../task/s3/index.ts';

/** Options of `openBlobs()`. */
export interface OpenBlobsOptions {
  /** Of `s3://…`; by default from `AWS_ACCESS_KEY_ID` and the other variables of that name. */
  readonly credentials?: S3Credentials;
}

/**
 * Opens a blob store: in a folder; with `postgres://…` in a database, or with `s3://bucket/prefix`
 * in a bucket, which replicas share. The query of an S3 address may have `region`, `endpoint` and
 * `path-style` (`true` or `false`); region and endpoint also come from `AWS_REGION` and
 * `AWS_ENDPOINT_URL_S3`.
 *
 * @example
 * ```ts
 * import { openBlobs, serve } from 'duolane/serve';
 *
 * await using blobs = await openBlobs('.duolane/blobs');
 * await using served = await serve(agent, { blobs });
 * ```
 */
export async function openBlobs(
  address: string,
  { credentials }: OpenBlobsOptions = {},
): Promise<BlobStore & AsyncDisposable> {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(address)?.[1]?.toLowerCase();
  if (scheme === 'postgres' || scheme === 'postgresql') {
    const { postgresBlobs } = await import('../task/postgres/index.ts');
    return postgresBlobs({ connectionString: address });
  }
  const nothing = { async [Symbol.asyncDispose]() {} };
  if (scheme === 's3') return Object.assign(await openBucket(address, credentials), nothing);
  if (scheme !== undefined)
    throw new DuolaneError(
      'invalid',
      `invalid blob store "${scheme}://…": expected a folder, postgres://… or s3://…`,
    );
  return Object.assign(fileBlobs({ directory: address }), nothing);
}

async function openBucket(
  address: string,
  credentials: S3Credentials = awsCredentials(process.env),
): Promise<BlobStore> {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  // The messages do not repeat the address: it may contain a secret.
  if (!url || url.username || url.password || url.port || url.hash)
    throw new DuolaneError(
      'invalid',
      'invalid address of a bucket: expected s3://bucket/prefix; credentials are read from the environment',
    );
  const query = Object.fromEntries(url.searchParams);
  const unknown = Object.keys(query).find((name) => !QUERY.includes(name));
  if (unknown !== undefined)
    throw new DuolaneError(
      'invalid',
      `unknown parameter of an S3 address: expected one of ${QUERY.join(', ')}`,
    );
  const { env } = process;
  const { s3Blobs } = await import('../task/s3/index.ts');
  return s3Blobs({
    bucket: url.hostname,
    prefix: url.pathname,
    credentials,
    ...omitUndefined({
      region: query['region'] ?? env['AWS_REGION'] ?? env['AWS_DEFAULT_REGION'],
      endpoint: query['endpoint'] ?? env['AWS_ENDPOINT_URL_S3'] ?? env['AWS_ENDPOINT_URL'],
      forcePathStyle: readBoolean(query['path-style']),
    }),
  });
}

const QUERY: readonly string[] = ['region', 'endpoint', 'path-style'];

function readBoolean(value: string | undefined): boolean | undefined {
  if (value === undefined) return undefined;
  if (value === 'true' || value === 'false') return value === 'true';
  throw new DuolaneError('invalid', 'invalid path-style of an S3 address: expected true or false');
}

/** Reads the credentials of S3 from variables with this prefix. Throws `invalid` without them. */
export function awsCredentials(
  variables: Readonly<Record<string, string | undefined>>,
  prefix = 'AWS_',
): S3Credentials {
  const accessKeyId = variables[`${prefix}ACCESS_KEY_ID`];
  const secretAccessKey = variables[`${prefix}SECRET_ACCESS_KEY`];
  const sessionToken = variables[`${prefix}SESSION_TOKEN`];
  if (!accessKeyId || !secretAccessKey)
    throw new DuolaneError(
      'invalid',
      `missing credentials of S3: set ${prefix}ACCESS_KEY_ID and ${prefix}SECRET_ACCESS_KEY`,
    );
  return { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) };
}
