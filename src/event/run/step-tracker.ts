import { speakerKey } from '../speaker-key.ts';
import type { AgentEvent, Usage } from '../types.ts';
import { addUsage } from '../usage.ts';

type Started = Extract<AgentEvent, { readonly type: 'step.started' }>;
type Finished = Extract<AgentEvent, { readonly type: 'step.finished' }>;

/**
 * Keeps laws 5 and 9: steps of one speaker never nest, each step is closed, and their usage is
 * summed. If the tracker closed a step and the agent then reports its usage, the report becomes a
 * step of its own: a start and a finish.
 */
export class StepTracker {
  readonly #open = new Map<string, Started>();
  /** By step: whether the agent itself has finished it. */
  readonly #seen = new Map<string, boolean>();
  #usage: Usage | undefined;

  get usage(): Usage | undefined {
    return this.#usage;
  }

  start(event: Started): AgentEvent[] {
    if (this.#open.get(speakerKey(event.path))?.step === event.step) return [];
    const before = this.#close(event.path);
    this.#open.set(speakerKey(event.path), event);
    this.#seen.set(keyOf(event), false);
    return [...before, event];
  }

  finish(event: Finished): AgentEvent[] {
    const open = this.#open.get(speakerKey(event.path));
    if (open?.step === event.step) {
      this.#open.delete(speakerKey(event.path));
      return [this.#count(event)];
    }
    const finished = this.#seen.get(keyOf(event));
    if (finished || (finished === false && !event.usage)) return [];
    const { step, at, path } = event;
    return [
      ...this.#close(event.path),
      {
        type: 'step.started',
        step,
        ...(at !== undefined && { at }),
        ...(path && { path }),
      },
      this.#count(event),
    ];
  }

  closeAll(): AgentEvent[] {
    return [...this.#open.values()].flatMap(({ path }) => this.#close(path));
  }

  #count(event: Finished): Finished {
    this.#seen.set(keyOf(event), true);
    if (event.usage) this.#usage = addUsage(this.#usage, event.usage);
    return event;
  }

  #close(path: readonly string[] | undefined): AgentEvent[] {
    const open = this.#open.get(speakerKey(path));
    if (!open) return [];
    this.#open.delete(speakerKey(path));
    return [{ type: 'step.finished', step: open.step, ...(path && { path }) }];
  }
}

const keyOf = ({ step, path }: Started | Finished): string => `${speakerKey(path)}\n${step}`;
