import { addressesOf, isPrivateAddress } from '../../http/public-address.ts';
import { A2AError } from '../protocol/a2a-errors.ts';

export interface Address {
  readonly address: string;
  readonly family: 4 | 6;
}

/**
 * Where a URL of a stranger leads, looked up once: connect to this address and no other, or the name
 * could mean something else a moment later. Throws `INVALID_PARAMS` for an address inside, unless
 * `allowInside`, and `network` for a name that leads nowhere: it may do so later.
 */
export async function resolvePublicAddress(url: string, allowInside: boolean): Promise<Address> {
  const { hostname } = new URL(url);
  const found = await addressesOf(new URL(url));
  const [first] = found;
  if (!first || (!allowInside && found.some(({ address }) => isPrivateAddress(address))))
    throw new A2AError('INVALID_PARAMS', `${hostname} is no public address; it is not notified`);
  return { address: first.address, family: first.family === 6 ? 6 : 4 };
}
