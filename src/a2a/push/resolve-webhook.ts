import dns from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { isIP } from 'node:net';
import { DuolaneError } from '../../errors.ts';
import { type Address, addressesOf, isPrivateAddress } from '../../http/public-address.ts';
import { A2AError } from '../protocol/a2a-errors.ts';

/** The first wait for a DNS server; the second and last one is longer. */
const DNS_MS = 2000;

/**
 * Resolves the host of a caller's URL once. Connect to the returned address and do not resolve
 * again: the name could resolve to a private address the next time (DNS rebinding). Throws
 * `INVALID_PARAMS` for a private address unless `allowPrivate`, and `network`, which is retryable,
 * for an unknown name.
 */
export async function resolvePublicAddress(url: string, allowPrivate: boolean): Promise<Address> {
  const { hostname } = new URL(url);
  const found = allowPrivate ? await addressesOf(new URL(url)) : await publicAddresses(hostname);
  const [first] = found;
  if (!first || (!allowPrivate && found.some(({ address }) => isPrivateAddress(address))))
    throw new A2AError(
      'INVALID_PARAMS',
      `invalid push url: expected a public address, but "${hostname}" is private`,
    );
  return first;
}

/**
 * The addresses of a host by DNS alone; none for a name that DNS cannot have, such as `localhost`.
 * `lookup` of Node would also read the hosts file, but it has two threads in a process: a few names
 * whose DNS server does not respond would stop every other connection of the process, such as those
 * of agents to their models.
 */
async function publicAddresses(hostname: string): Promise<readonly Address[]> {
  const host = hostname.replace(/^\[|\]$/g, '');
  const family = isIP(host);
  if (family !== 0) return [{ address: host, family }];
  const name = host.replace(/\.$/, '');
  if (!name.includes('.') || /\.(localhost|local)$/i.test(name)) return [];
  const resolver = new Resolver({ timeout: DNS_MS, tries: 2 });
  // A named import would be the function before `setServers` of the program was called.
  resolver.setServers(dns.getServers());
  const [four, six] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  const addresses = [
    ...(four.status === 'fulfilled' ? four.value : []),
    ...(six.status === 'fulfilled' ? six.value : []),
  ];
  if (addresses.length === 0)
    throw new DuolaneError('network', `cannot resolve ${hostname}`, {
      cause: four.status === 'rejected' ? four.reason : undefined,
    });
  return addresses.map((address) => ({ address, family: isIP(address) }));
}
