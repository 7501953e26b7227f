import { DuolaneError } from '../../errors.ts';
import { asArray, asObject, type JsonObject } from '../../json.ts';

/** The member of a message's metadata that lists the agents of a chain, from the first on. */
const HOPS = 'duolane.hops';
const MAX_HOPS = 16;

/**
 * Returns the metadata that lists the chain for its next agent. Throws `invalid`
 * if the chain is too long, or if it has called this agent already: two agents that call each other
 * would go on forever. Agents of other frameworks may drop the metadata; a chain through them is
 * counted from there on.
 */
export function nextHop(
  metadata: JsonObject | undefined,
  address: string,
  maxHops: number = MAX_HOPS,
): JsonObject {
  const target = URL.canParse(address) ? new URL(address).href : address;
  const hops = asArray(asObject(metadata)[HOPS]).filter((hop) => typeof hop === 'string');
  if (hops.includes(target))
    throw new DuolaneError(
      'invalid',
      `cannot call ${target}: the chain of agents has called it before; remove the cycle`,
    );
  if (hops.length >= maxHops)
    throw new DuolaneError(
      'invalid',
      `the chain of agents exceeds maxHops (${maxHops}): ${hops.length + 1}; increase maxHops to allow it`,
    );
  return { [HOPS]: [...hops, target] };
}
