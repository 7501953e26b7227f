/**
 * A map key for the agent (`''`) or one of its sub-agents, from the `path` of an event. Sub-agents
 * may speak at the same time, so blocks and steps are tracked for each speaker.
 */
export const speakerKey = (path: readonly string[] | undefined): string =>
  path?.length ? JSON.stringify(path) : '';
