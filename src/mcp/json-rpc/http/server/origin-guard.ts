import { refuseRequest } from './http-responses.ts';

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** Which hosts and origins an endpoint accepts. */
export interface OriginGuardOptions {
  /**
   * Host names under which clients may reach this server, in addition to those of this machine; `*`
   * accepts any.
   */
  readonly hosts?: readonly string[];
  /**
   * Origins of pages that may send requests (`https://app.example`), in addition to the server's
   * own; `*` accepts any, for a server that checks the origin itself.
   */
  readonly origins?: readonly string[];
}

/**
 * Returns the error response to a request that a page of another site may have sent: through a host
 * name that the site resolves to this machine (Host, DNS rebinding), or from its own origin
 * (Origin).
 */
export function refuseForeignOrigin(
  request: Request,
  { hosts = [], origins = [] }: OriginGuardOptions,
): Response | undefined {
  const { hostname, host } = new URL(request.url);
  if (!LOOPBACK.test(hostname) && !hosts.includes(hostname) && !hosts.includes('*'))
    return refuseRequest(403, `host "${hostname}" is not allowed; add it to the option hosts`);
  const origin = request.headers.get('origin');
  if (origin === null || origins.includes(origin) || origins.includes('*')) return undefined;
  const from = URL.canParse(origin) ? new URL(origin).host : '';
  return from === host
    ? undefined
    : refuseRequest(403, `origin "${origin}" is not allowed; add it to the option origins`);
}
