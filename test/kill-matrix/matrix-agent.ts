import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import type { Scene } from '../adapters/contract/harness.ts';
import type { ModelReply } from '../support/model-server.ts';

/** The scene in one process of the matrix. */
export interface MatrixScene extends Scene {
  /** An empty folder of this process alone; `home`, `tmp` and `work` are in it. */
  readonly own: string;
  /** Reports an effect that a sample has: once for each time that it happens. */
  readonly onEffect: (effect: string) => void;
}

/** What a sample of `examples/` does instead of the scene. */
export interface MatrixSample {
  /** The message that it gets. */
  readonly text: string;
  /** The model; the same request must get the same reply. */
  readonly reply: (body: JsonObject) => ModelReply;
  /** How many effects an unbroken run has. */
  readonly effects: number;
}

/**
 * An agent of the kill matrix: the default export of a file in `agents/`. The matrix builds it in
 * each process that it starts, kills that process, and compares what is left of the run with an
 * unbroken one.
 */
export interface MatrixAgent {
  /** Why the agent cannot run here, such as a peer that is not installed. */
  readonly missing?: string;
  readonly build: (scene: MatrixScene) => Agent | Promise<Agent>;
  /** The name under which the model calls a tool of the scene. */
  readonly toolName?: (name: string) => string;
  /** Whether a person is asked about the call of `guarded`; true by default. */
  readonly approval?: boolean;
  /** Replaces what differs between two unbroken runs, such as ids, times and folders. */
  readonly mask?: (body: JsonObject) => unknown;
  readonly sample?: () => Promise<MatrixSample>;
  /** Whether it runs an agent CLI, which can be killed while its runner lives. */
  readonly cli?: boolean;
}
