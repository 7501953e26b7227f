import { headerOf } from './node-request.ts';

/**
 * Whether the client has this version already, by `If-None-Match`: a weak or strong tag, one of
 * several, or `*`.
 */
export const matchesEtag = (request: Request, etag: string): boolean =>
  (headerOf(request, 'if-none-match') ?? '')
    .split(',')
    .map((tag) => tag.trim().replace(/^W\//, ''))
    .some((tag) => tag === etag || tag === '*');
