import { DuolaneError } from '../../errors.ts';
import type { Auth } from './guard.ts';
import type { HttpRoute } from '../router.ts';
import { secretSchemes } from './shared-secrets.ts';
import { jsonResponse } from '../../http/text-response.ts';

/** Whether a caller may read what concerns all callers: metrics, replicas, the audit log. */
export type IsOperator = (owner: string | undefined) => boolean;

/**
 * Decides which callers are operators. Without `auth` every caller is one, since the server listens
 * on this machine only. With `auth` the option names them; by default the holder of the secret is
 * the operator if the server has a single secret, and any other server has none. Throws `invalid`
 * for a name that no caller can have.
 */
export function createOperators(
  auth: Auth = {},
  operators: readonly string[] | undefined,
): IsOperator {
  const known = secretSchemes(auth.bearer, auth.apiKey).flatMap(({ owners }) =>
    owners.map(({ owner }) => owner),
  );
  const isOpen = auth.jwt !== undefined || auth.verify !== undefined;
  if (known.length === 0 && !isOpen) {
    if (operators !== undefined)
      throw new DuolaneError(
        'invalid',
        'option "operators" needs "auth"; without it all callers are one owner',
      );
    return () => true;
  }
  const unknown = operators?.find((name) => !known.includes(name));
  if (unknown !== undefined && !isOpen)
    throw new DuolaneError(
      'invalid',
      `unknown operator "${unknown}"; available: ${[...new Set(known)].join(', ')}`,
    );
  const names = new Set(operators ?? (isOpen || new Set(known).size > 1 ? [] : known));
  return (owner) => owner !== undefined && names.has(owner);
}

/** Wraps a route so that callers who are not operators get 403. */
export const forOperators = (route: HttpRoute, isOperator: IsOperator): HttpRoute => ({
  ...route,
  handle: (call) =>
    isOperator(call.owner)
      ? route.handle(call)
      : jsonResponse({ error: notOperator(route.path) }, { status: 403 }),
});

const notOperator = (path: string): DuolaneError =>
  new DuolaneError(
    'unauthorized',
    `only operators may read ${path}; name them in the option "operators"`,
  );
