import { DuolaneError } from '../../errors.ts';
import { matchesEtag } from '../../http/etag.ts';
import type { BlobInfo, BlobRange, BlobStore } from '../../task/blob-store.ts';
import { httpRoute, statusResponse, type RouteCall, type HttpRoute } from '../router.ts';

/**
 * `GET /blobs/:id` serves the bytes of an artifact, complete or a range of them, to callers that
 * may read them; for others the blob does not exist (404). The file is read as fast as the client
 * reads, and closed when the client disconnects.
 */
export const blobRoutes = (stores: readonly BlobStore[]): readonly HttpRoute[] =>
  stores.length === 0 ? [] : [httpRoute('GET', '/blobs/:id', (call) => sendBlob(stores, call))];

const PRINTABLE = /^[\x20-\x7e]+$/;

async function sendBlob(stores: readonly BlobStore[], call: RouteCall): Promise<Response> {
  const { request } = call;
  const id = call.params['id'] ?? '';
  const options = {
    signal: request.signal,
    ...(call.owner !== undefined && { caller: call.owner }),
  };
  const found = await find(stores, id, options);
  if (!found) return statusResponse(404, `blob "${id}" not found; it may have been deleted`);
  const { store, info } = found;
  const etag = `"${id}"`;
  // `encodeURIComponent` throws for half a surrogate pair; this replaces it.
  const name = Buffer.from(info.filename ?? id).toString();
  const always = {
    'accept-ranges': 'bytes',
    'content-type': PRINTABLE.test(info.mediaType) ? info.mediaType : 'application/octet-stream',
    // A browser must never show it as a page of this server: an agent chooses the content.
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

/** The first store that has the blob for this caller. */
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

/**
 * The range of a request; `none` if it is beyond the end (416). Undefined sends the complete blob:
 * for no range, several ranges, or an invalid one, which RFC 9110 says to ignore.
 */
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
