import { urlOf } from '../http/node-request.ts';
import { textResponse } from '../http/text-response.ts';

/** A handler for one method and path. */
export interface HttpRoute {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** `:name` matches one segment that is not empty, and becomes a member of `params`. */
  readonly path: string;
  readonly handle: (call: RouteCall) => Promise<Response> | Response;
}

/** Creates a route. */
export const httpRoute = (
  method: HttpRoute['method'],
  path: string,
  handle: HttpRoute['handle'],
): HttpRoute => ({ method, path, handle });

/** A request that matched a route. */
export interface RouteCall {
  readonly request: Request;
  readonly url: URL;
  readonly params: Readonly<Record<string, string>>;
  /** The authenticated caller; undefined on a server without `auth`. */
  readonly owner: string | undefined;
}

/**
 * Dispatches a request to the first route that matches. The response is 405 for a path that exists
 * under another method, 400 for broken percent-encoding, and 404 for any other path.
 */
export function createRouter(
  routes: readonly HttpRoute[],
): (request: Request, owner: string | undefined) => Promise<Response> {
  const table = routes.map((route) => ({ route, segments: route.path.split('/') }));
  return async (request, owner) => {
    const url = urlOf(request);
    const given = decodeSegments(url.pathname);
    if (!given) return statusResponse(400, 'the path is not valid percent-encoded UTF-8');
    let known = false;
    for (const { route, segments } of table) {
      const params = match(segments, given);
      if (!params) continue;
      known = true;
      const method = request.method === 'HEAD' ? 'GET' : request.method;
      if (route.method === method) return route.handle({ request, url, params, owner });
    }
    return known
      ? statusResponse(405, `method ${request.method} is not allowed for ${url.pathname}`)
      : statusResponse(404, `path ${url.pathname} not found`);
  };
}

function match(
  segments: readonly string[],
  given: readonly Segment[],
): Record<string, string> | undefined {
  if (segments.length !== given.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, segment] of segments.entries()) {
    const { raw, text } = given[i] as Segment;
    if (segment.startsWith(':') && raw !== '') params[segment.slice(1)] = text;
    else if (segment !== raw) return undefined;
  }
  return params;
}

interface Segment {
  /** As the client sent it. Fixed segments of a route match this, never the decoded text. */
  readonly raw: string;
  readonly text: string;
}

/**
 * Splits first and decodes each segment once, so that an encoded slash stays inside its segment.
 */
function decodeSegments(pathname: string): readonly Segment[] | undefined {
  try {
    return pathname.split('/').map((raw) => ({ raw, text: decodeURIComponent(raw) }));
  } catch {
    return undefined; // a stray % or bytes that are not UTF-8
  }
}

/** A plain text response. */
export const statusResponse = (status: number, text: string): Response =>
  textResponse(`${text}\n`, status, { 'content-type': 'text/plain; charset=utf-8' });
