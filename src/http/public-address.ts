import { lookup } from 'node:dns/promises';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { DuolaneError } from '../errors.ts';

const PRIVATE_4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  // A public number, but the virtual machines of one cloud reach their own host there.
  '168.63.129.16/32',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/4',
  '240.0.0.0/4',
];
// The last six contain an IPv4 address, which would bypass the list above.
const PRIVATE_6 = [
  'fc00::/7',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
  '::/96',
  '::ffff:0:0:0/96',
  '64:ff9b::/96',
  '64:ff9b:1::/48',
  '2001::/32',
  '2002::/16',
];

const privateNets = new BlockList();
for (const net of PRIVATE_4) addSubnet(net, 'ipv4');
for (const net of PRIVATE_6) addSubnet(net, 'ipv6');

function addSubnet(net: string, family: 'ipv4' | 'ipv6'): void {
  const [address = '', bits] = net.split('/');
  privateNets.addSubnet(address, Number(bits), family);
}

/**
 * Whether an address is this machine, its network or reserved: an untrusted peer must not name it.
 */
export const isPrivateAddress = (address: string): boolean =>
  privateNets.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');

/** An IP address to connect to. */
export interface Address {
  readonly address: string;
  readonly family: number;
}

/** The addresses of the host of a URL. Throws `network` if the name cannot be resolved. */
export async function addressesOf(url: URL): Promise<readonly Address[]> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return lookup(host, { all: true }).catch((cause: unknown) => {
    throw new DuolaneError('network', `cannot resolve ${url.hostname}`, { cause });
  });
}

/**
 * The option `lookup` of a request that connects to one of these addresses and resolves no name.
 * Use it with addresses that were checked: the name could resolve to a private address the next
 * time (DNS rebinding). Needs at least one address.
 */
export const pinnedLookup =
  (addresses: readonly Address[]): LookupFunction =>
  (_host, options, callback) => {
    const [first] = addresses;
    if (options.all) callback(null, [...addresses]);
    else callback(null, first?.address ?? '', first?.family);
  };
