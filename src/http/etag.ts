import { headerOf } from './node-request.ts';

/** Whether the client has it already, by `If-None-Match`: weak or not, one of several, or any. */
export const matchesEtag = (request: Request, etag: string): boolean =>
  (headerOf(request, 'if-none-match') ?? '')
    .split(',')
    .map((tag) => tag.trim().replace(/^W\//, ''))
    .some((tag) => tag === etag || tag === '*');
