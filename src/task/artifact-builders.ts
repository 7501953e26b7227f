import { randomUUID } from 'node:crypto';
import { inheritAgentFlags } from '../event/run/agent-flags.ts';
import type { Agent, AgentEvent, Part } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import { ArtifactPlan } from './artifact-plan.ts';

type ArtifactEvent = Extract<AgentEvent, { readonly type: 'artifact' }>;

export interface ArtifactOptions {
  /** A random UUID by default. */
  readonly artifactId?: string;
  readonly metadata?: JsonObject;
}

/** Creates a complete artifact in one event. */
export const artifact = (
  name: string,
  parts: readonly Part[],
  { artifactId = randomUUID(), metadata }: ArtifactOptions = {},
): ArtifactEvent => ({
  type: 'artifact',
  artifactId,
  name,
  parts,
  last: true,
  ...(metadata && { metadata }),
});

/**
 * Yields an artifact in pieces: the first event starts it, each further one appends, and the last
 * one has `last`. It delays each piece until the next one arrives, to know which is the last.
 * Without a piece, the artifact is empty.
 */
export async function* artifactChunks(
  name: string,
  pieces: AsyncIterable<readonly Part[]> | Iterable<readonly Part[]>,
  { artifactId = randomUUID(), metadata }: ArtifactOptions = {},
): AsyncGenerator<ArtifactEvent, void> {
  const chunk = (parts: readonly Part[], append: boolean, last: boolean): ArtifactEvent => ({
    type: 'artifact',
    artifactId,
    name,
    parts,
    ...(append && { append }),
    ...(last && { last }),
    ...(!append && metadata && { metadata }),
  });
  let delayed: readonly Part[] | undefined;
  let append = false;
  for await (const parts of pieces) {
    if (delayed) {
      yield chunk(delayed, append, false);
      append = true;
    }
    delayed = parts;
  }
  yield chunk(delayed ?? [], append, true);
}

/**
 * Decorates an agent so that it must deliver artifacts in a declared order. Another name, another
 * order, or a run that completes without one of them fails the run with `invalid`, which names the
 * expected artifact. Further chunks of an artifact may come until the next one starts. Each run
 * delivers the full plan. For an agent that `continues`, artifacts from before a suspension count;
 * of a plan that an earlier run did not finish, it delivers the rest, or all of it again.
 */
export function withArtifactPlan(names: readonly string[], agent: Agent): Agent {
  const planned: Agent = async function* (turn, ctx) {
    const plan = agent.continues ? ArtifactPlan.of(names, turn, ctx.task) : new ArtifactPlan(names);
    for await (const event of agent(turn, ctx)) {
      if (event.type === 'artifact') plan.check(event);
      if (event.type === 'run.finished' && event.outcome === 'completed') plan.complete();
      yield event;
      if (event.type === 'run.finished') return;
    }
    plan.complete();
  };
  return inheritAgentFlags(agent, planned);
}
