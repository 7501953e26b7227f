import { randomUUID } from 'node:crypto';
import type { Agent, AgentEvent, Part } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import { ArtifactPlan } from './artifact-plan.ts';

type ArtifactEvent = Extract<AgentEvent, { readonly type: 'artifact' }>;

/** Tells the person that the request has arrived: yield it before the first model call. */
export const acknowledge = (message: string = 'Analysing your request...'): AgentEvent => ({
  type: 'status',
  message,
});

export const textPart = (text: string, mediaType?: string): Part => ({
  text,
  ...(mediaType !== undefined && { mediaType }),
});

/** Text whose text is JSON, for readers that know no data parts. */
export const jsonTextPart = (value: unknown): Part =>
  textPart(JSON.stringify(value), 'application/json');

export const dataPart = (data: unknown): Part => ({ data });

/** Points to a file by its URL, with what a reader wants to know before it loads it. */
export const filePart = (
  uri: string,
  resourceType: string,
  table: { readonly rowCount: number; readonly columns: readonly string[] },
): Part =>
  dataPart({
    type: 'artifact',
    uri,
    resource_type: resourceType,
    metadata: { row_count: table.rowCount, columns: table.columns },
  });

export interface PipelineStep {
  readonly name: string;
  /** What the step yields is part of the run; events at hand, nothing, and a promise of either are fine. */
  run(): AsyncIterable<AgentEvent> | Given | Promise<Given>;
}

type Given = Iterable<AgentEvent> | void;

/**
 * Runs steps one after the other, each announced as `Step: <name>` before it begins. A step that
 * throws ends the pipeline; no later one is announced.
 */
export async function* runSteps(steps: Iterable<PipelineStep>): AsyncGenerator<AgentEvent, void> {
  for (const step of steps) {
    yield { type: 'status', message: `Step: ${step.name}`, data: { step: step.name } };
    const events = await step.run();
    if (events) yield* events;
  }
}

export interface ArtifactOptions {
  /** A fresh uuid by default. */
  readonly artifactId?: string;
  readonly metadata?: JsonObject;
}

/** A whole artifact in one event. */
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
 * An artifact in pieces, as they come: the first opens it, each further one appends, the last one
 * says so. Holds one piece back to know which is the last. No piece at all is an empty artifact.
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
  let held: readonly Part[] | undefined;
  let append = false;
  for await (const parts of pieces) {
    if (held) {
      yield chunk(held, append, false);
      append = true;
    }
    held = parts;
  }
  yield chunk(held ?? [], append, true);
}

/**
 * The same agent, held to a declared order of artifacts: another name, another order, or a run that
 * completes with one missing is `invalid`, which fails the run and says which was expected. Further
 * chunks of an artifact may come until the next one begins. Each run says the whole plan. An agent
 * that `continues` goes on in it, too: what its run has said before it slept counts, and of what an
 * earlier run has left half-way it says the rest, or all of it anew.
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
  const { resumable, continues } = agent;
  return Object.assign(planned, {
    ...(resumable !== undefined && { resumable }),
    ...(continues !== undefined && { continues }),
  });
}
