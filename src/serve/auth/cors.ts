import { DuolaneError } from '../../errors.ts';
import { headerOf } from '../../http/node-request.ts';

/** The headers that a page of another origin may read. */
const READABLE =
  'a2a-extensions, x-a2a-extensions, mcp-session-id, www-authenticate, content-range, retry-after';

/**
 * The cross-origin rules (CORS) of a server: which origins may send requests, and the headers for
 * it.
 */
export interface Cors {
  readonly isAllowed: (origin: string | null) => boolean;
  /** The response to a preflight request of an allowed origin; undefined for any other request. */
  preflight(request: Request): Response | undefined;
  /**
   * Adds the headers with which the page can read the response. Cookies are not allowed
   * cross-origin.
   */
  readable(request: Request, response: Response): Response;
}

/**
 * Throws `invalid` for a text that is not an origin, such as one without a scheme or with a path.
 */
export function createCors(origins: readonly string[] = []): Cors {
  const wrong = origins.find((each) => !URL.canParse(each) || new URL(each).origin !== each);
  if (wrong !== undefined)
    throw new DuolaneError(
      'invalid',
      `invalid origin "${wrong}": expected scheme://host[:port], e.g. https://app.example.com`,
    );
  const isAllowed = (origin: string | null): boolean => origin !== null && origins.includes(origin);
  const readable = (request: Request, response: Response): Response => {
    if (origins.length === 0) return response;
    response.headers.append('vary', 'Origin');
    const origin = headerOf(request, 'origin');
    if (origin === null || !isAllowed(origin)) return response;
    response.headers.set('access-control-allow-origin', origin);
    response.headers.set('access-control-expose-headers', READABLE);
    return response;
  };
  return {
    isAllowed,
    readable,
    preflight(request) {
      const isPreflight = headerOf(request, 'access-control-request-method') !== null;
      if (request.method !== 'OPTIONS' || !isPreflight || !isAllowed(headerOf(request, 'origin')))
        return undefined;
      const headers = {
        'access-control-allow-methods': 'GET, POST, DELETE',
        'access-control-allow-headers':
          headerOf(request, 'access-control-request-headers') ?? 'content-type',
        'access-control-max-age': '600',
      };
      return readable(request, new Response(null, { status: 204, headers }));
    },
  };
}
