import { refuseRequest } from './http-responses.ts';

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

export interface OriginGuardOptions {
  /** Names under which clients may reach this server, beside those of this machine; `*` is any. */
  readonly hosts?: readonly string[];
  /** Pages that may ask from a browser (`https://app.example`), beside our own. */
  readonly origins?: readonly string[];
}

/**
 * The refusal of a request that a page of another site may have made: by a name that it made
 * resolve to this machine (Host), or from its own origin (Origin).
 */
export function refuseForeignOrigin(
  request: Request,
  { hosts = [], origins = [] }: OriginGuardOptions,
): Response | undefined {
  const { hostname, host } = new URL(request.url);
  if (!LOOPBACK.test(hostname) && !hosts.includes(hostname) && !hosts.includes('*'))
    return refuseRequest(403, `Host ${hostname} is not this server; name it in \`hosts\``);
  const origin = request.headers.get('origin');
  if (origin === null || origins.includes(origin)) return undefined;
  const from = URL.canParse(origin) ? new URL(origin).host : '';
  return from === host ? undefined : refuseRequest(403, `Origin ${origin} may not ask here`);
}
