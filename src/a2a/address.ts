import { lookup } from 'node:dns/promises';
import { BlockList, isIP } from 'node:net';
import { DuolaneError } from '../errors.ts';
import { Refusal } from './errors.ts';

export interface Address {
  readonly address: string;
  readonly family: 4 | 6;
}

const PRIVATE_4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/4',
  '240.0.0.0/4',
];
// The last six carry an IPv4 address inside, which would go round the list above.
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

const inside = new BlockList();
for (const net of PRIVATE_4) addSubnet(net, 'ipv4');
for (const net of PRIVATE_6) addSubnet(net, 'ipv6');

function addSubnet(net: string, family: 'ipv4' | 'ipv6'): void {
  const [address = '', bits] = net.split('/');
  inside.addSubnet(address, Number(bits), family);
}

/** Whether an address is this machine, its network, or nobody's: what a stranger may not name. */
export const isInside = (address: string): boolean =>
  inside.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');

/**
 * Where a URL of a stranger leads, looked up once: connect to this address and no other, or the name
 * could mean something else a moment later. Throws `INVALID_PARAMS` for an address inside, unless
 * `allowInside`, and `network` for a name that leads nowhere: it may do so later.
 */
export async function resolveOutside(url: string, allowInside: boolean): Promise<Address> {
  const { hostname } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, '');
  const found = await lookup(host, { all: true }).catch((cause: unknown) => {
    throw new DuolaneError('network', `${hostname} cannot be resolved`, { cause });
  });
  const [first] = found;
  if (!first || (!allowInside && found.some(({ address }) => isInside(address))))
    throw new Refusal('INVALID_PARAMS', `${hostname} is no public address; it is not notified`);
  return { address: first.address, family: first.family === 6 ? 6 : 4 };
}
