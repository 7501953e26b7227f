export { s3Blobs, type S3BlobOptions } from './s3-blobs.ts';
export type { S3Credentials, S3Options } from './s3-client.ts';
