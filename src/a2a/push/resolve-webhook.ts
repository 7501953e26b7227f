import { type Address, addressesOf, isPrivateAddress } from '../../http/public-address.ts';
import { A2AError } from '../protocol/a2a-errors.ts';

/**
 * Resolves the host of a caller's URL once. Connect to the returned address and do not resolve
 * again: the name could resolve to a private address the next time (DNS rebinding). Throws
 * `INVALID_PARAMS` for a private address unless `allowPrivate`, and `network`, which is retryable,
 * for an unknown name.
 */
export async function resolvePublicAddress(url: string, allowPrivate: boolean): Promise<Address> {
  const { hostname } = new URL(url);
  const found = await addressesOf(new URL(url));
  const [first] = found;
  if (!first || (!allowPrivate && found.some(({ address }) => isPrivateAddress(address))))
    throw new A2AError(
      'INVALID_PARAMS',
      `invalid push url: expected a public address, but "${hostname}" is private`,
    );
  return first;
}
