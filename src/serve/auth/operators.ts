import { DuolaneError } from '../../errors.ts';
import type { Auth } from './guard.ts';
import type { HttpRoute } from '../router.ts';
import { secretSchemes } from './shared-secrets.ts';

/** Whether a caller may see what concerns the server and all its callers: metrics, replicas, the audit log. */
export type IsOperator = (owner: string | undefined) => boolean;

/**
 * Without `auth` every caller is an operator: the server listens on this machine only. With `auth`
 * those are who are named. If none is named, a server with a single secret has its holder as the
 * operator, and any other server has none. Throws `invalid` for a name that no caller can have.
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
      throw new DuolaneError('invalid', 'operators need auth: without it every caller is the same');
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

/** The route, for operators alone. */
export const forOperators = (route: HttpRoute, isOperator: IsOperator): HttpRoute => ({
  ...route,
  handle: (call) =>
    isOperator(call.owner)
      ? route.handle(call)
      : Response.json(
          {
            error: {
              code: 'unauthorized',
              message: `only operators may read ${route.path}; name them in the option "operators"`,
              retryable: false,
            },
          },
          { status: 403 },
        ),
});
