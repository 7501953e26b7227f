import { DuolaneError } from '../../errors.ts';
import { headerOf } from '../../http/node-request.ts';

/** What a page of another origin may read besides the body. */
const READABLE = 'a2a-extensions, x-a2a-extensions, www-authenticate, content-range, retry-after';

/** Which pages of other origins may ask (CORS), and how they are told so. */
export interface Cors {
  readonly isAllowed: (origin: string | null) => boolean;
  /** The answer to a browser that asks whether a page may ask. */
  preflight(request: Request): Response | undefined;
  /** The response, such that the page can read it. Cookies are for the page of this server alone. */
  readable(request: Request, response: Response): Response;
}

/** Throws `invalid` for what is no origin. */
export function createCors(origins: readonly string[] = []): Cors {
  const wrong = origins.find((each) => !URL.canParse(each) || new URL(each).origin !== each);
  if (wrong !== undefined)
    throw new DuolaneError('invalid', `origins: ${wrong} is none; write https://app.example.com`);
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
      const asks = headerOf(request, 'access-control-request-method') !== null;
      if (request.method !== 'OPTIONS' || !asks || !isAllowed(headerOf(request, 'origin')))
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
