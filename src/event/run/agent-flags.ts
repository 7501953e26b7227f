import type { Agent } from '../types.ts';

/** Gives a decorated agent the flags of the agent that it wraps: `resumable` and `continues`. */
export function inheritAgentFlags(from: Agent, to: Agent): Agent {
  const { resumable, continues } = from;
  return Object.assign(to, {
    ...(resumable !== undefined && { resumable }),
    ...(continues !== undefined && { continues }),
  });
}
