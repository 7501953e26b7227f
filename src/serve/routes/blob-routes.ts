import { DuolaneError } from '../../errors.ts';
import { matchesEtag } from '../../http/etag.ts';
import type { BlobInfo, BlobRange, BlobStore } from '../../task/blob-store.ts';
import { statusResponse, type RouteCall, type HttpRoute } from '../router.ts';

/**
 * `GET /blobs/:id`: the bytes that an artifact points to, whole or by a range, to whoever may read
 * them. Anybody else is told that there is none. Read as the client reads; a client that leaves
 * closes the file.
 */
export const blobRoutes = (stores: readonly BlobStore[]): readonly HttpRoute[] =>
  stores.length === 0
    ? []
    : [{ method: 'GET', path: '/blobs/:id', handle: (call) => handOut(stores, call) }];

const PRINTABLE = /^[\x20-\x7e]+$/;

async function handOut(stores: readonly BlobStore[], call: RouteCall): Promise<Response> {
  const { request } = call;
  const id = call.params['id'] ?? '';
  const options = {
    signal: request.signal,
    ...(call.owner !== undefined && { caller: call.owner }),
  };
  const found = await find(stores, id, options);
  if (!found) return statusResponse(404, `there is no blob ${id}`);
  const { store, info } = found;
  const etag = `"${id}"`;
  // Half a surrogate pair cannot be encoded.
  const name = Buffer.from(info.filename ?? id).toString();
  const always = {
    'accept-ranges': 'bytes',
    'content-type': PRINTABLE.test(info.mediaType) ? info.mediaType : 'application/octet-stream',
    // Never shown as a page of this server, whatever an agent has put into it.
    'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(name)}`,
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff',
    etag,
  };
  const headers = { ...always, 'cache-control': 'private, max-age=31536000, immutable' };
  if (matchesEtag(request, etag)) return new Response(null, { status: 304, headers });
  const range = requestedRange(request, etag, info);
  if (range === 'none')
    return new Response(null, {
      status: 416,
      headers: { ...always, 'content-range': `bytes */${info.bytes}` },
    });
  const blob = await store.get(id, { ...options, ...range });
  const { start, end } = blob.range;
  const body = request.method === 'HEAD' ? null : ReadableStream.from(blob.body);
  return new Response(body, {
    status: range ? 206 : 200,
    headers: {
      ...headers,
      'content-length': String(Math.max(0, end - start + 1)),
      ...(range && { 'content-range': `bytes ${start}-${end}/${info.bytes}` }),
    },
  });
}

async function find(
  stores: readonly BlobStore[],
  id: string,
  options: { readonly caller?: string },
): Promise<{ readonly store: BlobStore; readonly info: BlobInfo } | undefined> {
  for (const store of stores) {
    try {
      return { store, info: (await store.get(id, options)).info };
    } catch (error) {
      if (!(error instanceof DuolaneError) || error.code !== 'not_found') throw error;
    }
  }
  return undefined;
}

/** Undefined for the whole: no range, several, or one that is no range, as the standard has it. */
function requestedRange(
  { headers, method }: Request,
  etag: string,
  { bytes }: BlobInfo,
): BlobRange | 'none' | undefined {
  const condition = headers.get('if-range');
  if (method !== 'GET') return undefined;
  if (condition !== null && condition !== etag) return undefined;
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(headers.get('range') ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  if (first === '') return Number(last) === 0 || bytes === 0 ? 'none' : { start: -Number(last) };
  const [start, end] = [Number(first), last === '' ? bytes - 1 : Number(last)];
  if (start > end && last !== '') return undefined;
  return start >= bytes ? 'none' : { start, end };
}
