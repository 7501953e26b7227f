import { omitUndefined } from '../../../../../json.ts';

/** What a refusal says about the required login (`WWW-Authenticate: Bearer …`). */
export interface Challenge {
  readonly error?: string;
  readonly scope?: string;
  readonly resourceMetadata?: string;
}

const PARAMETER = /(?<![\w-])([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/g;

/** Parses the bearer challenge of a header that may contain several; empty if it has none. */
export function readChallenge(header: string | null): Challenge {
  const [, rest] = /(?:^|,\s*)Bearer(?:\s+(.*))?$/is.exec(header ?? '') ?? [];
  const found = new Map<string, string>();
  for (const [, name = '', quoted, plain] of (rest ?? '').matchAll(PARAMETER)) {
    const key = name.toLowerCase();
    if (!found.has(key)) found.set(key, quoted?.replace(/\\(.)/g, '$1') ?? plain ?? '');
  }
  const [error, scope, resourceMetadata] = ['error', 'scope', 'resource_metadata'].map((key) =>
    found.get(key),
  );
  return omitUndefined({ error, scope, resourceMetadata });
}
