import { urlOf } from '../http/node-request.ts';

export interface HttpRoute {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** `:name` stands for one segment. */
  readonly path: string;
  readonly handle: (call: RouteCall) => Promise<Response> | Response;
}

export interface RouteCall {
  readonly request: Request;
  readonly url: URL;
  readonly params: Readonly<Record<string, string>>;
  readonly owner: string | undefined;
}

/**
 * The first route that fits; a path that exists under another method answers 405, one whose
 * percent-encoding is broken answers 400.
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
      ? statusResponse(405, `${request.method} is not for ${url.pathname}`)
      : statusResponse(404, `nothing at ${url.pathname}`);
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
  /** As it came. Fixed segments of a route match this, never the decoded text. */
  readonly raw: string;
  readonly text: string;
}

/** Decoded once, after splitting, so an encoded slash stays inside its segment. */
function decodeSegments(pathname: string): readonly Segment[] | undefined {
  try {
    return pathname.split('/').map((raw) => ({ raw, text: decodeURIComponent(raw) }));
  } catch {
    return undefined; // a stray % or bytes that are not UTF-8
  }
}

export const statusResponse = (status: number, text: string): Response =>
  new Response(`${text}\n`, { status, headers: { 'content-type': 'text/plain; charset=utf-8' } });
