import { ensurePeer, type Peer } from '../scripts/peers.mjs';

/**
 * A pinned package of somebody else, from `peers/<name>`, installed on first use:
 *
 *     const sdk = await peer('mcp-sdk');
 *     suite('mcp-sdk', sdk.reason, () => { … await sdk.import('@modelcontextprotocol/server') … });
 *
 * Without a network it is not `available` and `reason` says why; such a suite is skipped loudly.
 */
export async function peer(name: string): Promise<Peer> {
  const found = await ensurePeer(name);
  if (!found.available) process.stderr.write(`${found.reason ?? name}\n`);
  return found;
}

export type { Peer };
