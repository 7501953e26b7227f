import { DuolaneError } from '../errors.ts';

/**
 * Removes slashes at the end, since paths are appended to it. Throws `invalid` unless it is
 * http(s).
 */
export function readPublicUrl(given: string | undefined): string | undefined {
  if (given === undefined || /^https?:$/.test(URL.canParse(given) ? new URL(given).protocol : ''))
    return given?.replace(/(?<!\/)\/+$/, '');
  throw new DuolaneError(
    'invalid',
    `invalid publicUrl "${given}": expected an http or https address`,
  );
}
