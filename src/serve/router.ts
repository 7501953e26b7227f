import { urlOf } from '../http/request.ts';

export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** `:name` stands for one segment. */
  readonly path: string;
  readonly handle: (call: Call) => Promise<Response> | Response;
}

export interface Call {
  readonly request: Request;
  readonly url: URL;
  readonly params: Readonly<Record<string, string>>;
  readonly owner: string | undefined;
}

/** The first route that fits; a path that exists under another method answers 405. */
export function createRouter(
  routes: readonly Route[],
): (request: Request, owner: string | undefined) => Promise<Response> {
  const table = routes.map((route) => ({ route, segments: route.path.split('/') }));
  return async (request, owner) => {
    const url = urlOf(request);
    const given = url.pathname.split('/');
    let known = false;
    for (const { route, segments } of table) {
      const params = match(segments, given);
      if (!params) continue;
      known = true;
      const method = request.method === 'HEAD' ? 'GET' : request.method;
      if (route.method === method) return route.handle({ request, url, params, owner });
    }
    return known
      ? plain(405, `${request.method} is not for ${url.pathname}`)
      : plain(404, `nothing at ${url.pathname}`);
  };
}

function match(
  segments: readonly string[],
  given: readonly string[],
): Record<string, string> | undefined {
  if (segments.length !== given.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, segment] of segments.entries()) {
    const value = given[i] ?? '';
    if (segment.startsWith(':') && value !== '') params[segment.slice(1)] = decode(value);
    else if (segment !== value) return undefined;
  }
  return params;
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // a stray % is part of the name
  }
}

export const plain = (status: number, text: string): Response =>
  new Response(`${text}\n`, { status, headers: { 'content-type': 'text/plain; charset=utf-8' } });
