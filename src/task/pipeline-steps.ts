import type { AgentEvent } from '../event/types.ts';

/** A named step of an agent that works in a fixed order. */
export interface PipelineStep {
  readonly name: string;
  /** Does the work. Its events are part of the run; it may also return a list, or nothing. */
  run(): AsyncIterable<AgentEvent> | StepResult | Promise<StepResult>;
}

type StepResult = Iterable<AgentEvent> | void;

/**
 * Runs steps one after the other. A `status` event `Step: <name>` announces each step before it
 * starts. A step that throws ends the pipeline, and no later one is announced.
 *
 * @example
 * ```ts
 * const steps = [{ name: 'Load', run: load }, { name: 'Check', run: check }];
 * const agent: Agent = () => runSteps(steps);
 * ```
 */
export async function* runSteps(steps: Iterable<PipelineStep>): AsyncGenerator<AgentEvent, void> {
  for (const step of steps) {
    yield { type: 'status', message: `Step: ${step.name}`, data: { step: step.name } };
    const events = await step.run();
    if (events) yield* events;
  }
}
