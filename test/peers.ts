import { ensurePeer, type Peer } from '../scripts/peers.mjs';

/**
 * A pinned third-party package from `peers/<name>`, installed on first use:
 *
 *     const sdk = await peer('mcp-sdk');
 *     suite('mcp-sdk', sdk.reason, () => { … await sdk.import('@modelcontextprotocol/server') … });
 *
 * Without a network it is not `available` and `reason` says why; the report of the run lists the skipped suite.
 */
export async function peer(name: string): Promise<Peer> {
  const found = await ensurePeer(name);
  if (!found.available) process.stderr.write(`${found.reason ?? name}\n`);
  return found;
}

export type { Peer };
