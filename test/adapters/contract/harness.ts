import type { Agent } from '../../../src/event/types.ts';
import type { JsonObject } from '../../../src/json.ts';
import type { ModelReply, ModelScript } from '../../support/model-server.ts';

/** A tool as the suite describes it; each harness makes one of its framework from it. */
export interface SceneTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of its arguments. */
  readonly schema: JsonObject;
  /** A person must allow each call. */
  readonly approval?: boolean;
  readonly run: (args: JsonObject, signal: AbortSignal | undefined) => Promise<unknown>;
}

/** What the framework's agent is to be made of. */
export interface Scene {
  /** The scripted model: `<url>/v1` for chat completions, `<url>` for the Messages API. */
  readonly url: string;
  readonly tools: readonly SceneTool[];
  /** JSON Schema of the answer. */
  readonly output?: JsonObject;
}

/** What a framework may not report; `docs/guides/adapters.md` has the table. */
export type Gap =
  | 'reasoning'
  | 'arguments'
  | 'approval'
  | 'structured'
  | 'tool error'
  | 'mcp error'
  | 'in stream error';

export interface AdapterHarness {
  readonly build: (scene: Scene) => Agent | Promise<Agent>;
  /** The name under which the model calls a tool of the scene. */
  readonly toolName?: (name: string) => string;
  /** What this framework does not report, and why. */
  readonly gaps?: Partial<Record<Gap, string>>;
  /** `own`: the framework retries and says so; else `withRetry` does it, and the framework must not. */
  readonly retries?: 'own';
  /** After a wait the run starts over, so that the model is asked again. */
  readonly startsOver?: boolean;
  /** What is left of the words `the disk is full` that a tool threw. */
  readonly toolError?: string;
  /** How the model gives an answer in a schema; as JSON text by default. */
  readonly structured?: (value: JsonObject) => ModelScript;
  readonly graceMs?: number;
  /** Agents that hand work to another; without it the framework has none. */
  readonly subAgent?: SubAgentHarness;
}

/** An agent that can hand work to a sub-agent, both on the scripted model. */
export interface SubAgentHarness {
  /** The sub-agent has the tools of the scene, the agent only the sub-agent. */
  readonly build: (scene: Scene) => Agent | Promise<Agent>;
  /** What the model says to hand over; by default it calls the tool `helper` with a `prompt`. */
  readonly handOver?: ModelReply;
  /** The name under which the model of the sub-agent calls a tool of the scene. */
  readonly toolName?: (name: string) => string;
  /** Why the events of the sub-agent are not reported, only its result. */
  readonly unheard?: string;
  /** Why the usage of the sub-agent is not reported. */
  readonly uncounted?: string;
}
