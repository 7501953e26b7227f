import { asObject, asString, isObject, type JsonObject } from '../../json.ts';
import type { AgentContext } from '../../event/types.ts';
import { DurableCalls, isStreamingModel } from '../ai-sdk/durable-model.ts';
import { DurableTools } from '../shared/durable-tools.ts';
import type { MastraAgent } from './mastra-agent.ts';

/** The members of an agent of Mastra by which its calls are made durable. */
interface ForkableAgent extends MastraAgent {
  /** Returns a copy that can be changed without changing the agent. */
  __fork(): ForkableAgent;
  resolveModelConfig(...config: unknown[]): Promise<unknown>;
  wrapToolsWithHooks(tools: JsonObject, hooks: unknown): JsonObject;
}

/** Whether this version of Mastra allows its calls to be made durable. */
export const isForkable = (agent: MastraAgent): agent is ForkableAgent =>
  ['__fork', 'resolveModelConfig', 'wrapToolsWithHooks'].every(
    (name) => typeof Reflect.get(agent, name) === 'function',
  );

/** A copy of the agent for one run, whose model calls and tool calls are durable steps. */
export function durableAgent(agent: ForkableAgent, ctx: AgentContext): MastraAgent {
  const calls = new DurableCalls(ctx);
  const tools = new DurableTools(ctx);
  const fork = agent.__fork();
  const models = new Map<unknown, unknown>();
  const resolveModelConfig = fork.resolveModelConfig.bind(fork);
  const wrapToolsWithHooks = fork.wrapToolsWithHooks.bind(fork);
  return Object.assign(fork, {
    resolveModelConfig: async (...config: unknown[]) => {
      const model = await resolveModelConfig(...config);
      if (!isStreamingModel(model)) return model;
      if (!models.has(model)) models.set(model, calls.model(model));
      return models.get(model);
    },
    // Mastra calls it last, with all tools of a run: also those of sub-agents, workflows and MCP.
    wrapToolsWithHooks: (given: JsonObject, hooks: unknown) => {
      const wrapped = wrapToolsWithHooks(given, hooks);
      const entries = Object.entries(wrapped).map(([name, tool]) => [name, durable(tool, tools)]);
      return Object.fromEntries(entries) as JsonObject;
    },
  });
}

function durable(tool: unknown, tools: DurableTools): unknown {
  const { execute } = asObject(tool);
  if (!isObject(tool) || typeof execute !== 'function') return tool;
  return {
    ...tool,
    execute: (input: unknown, options: unknown): Promise<unknown> =>
      callOnce(
        tools,
        asObject(options),
        (given) => execute.call(tool, input, given) as Promise<unknown>,
      ),
  };
}

/**
 * Makes a call, or returns what the log has. What the tool has written meanwhile, such as the
 * chunks of a sub-agent, is stored with its result and written again.
 */
async function callOnce(
  tools: DurableTools,
  options: JsonObject,
  run: (options: JsonObject) => Promise<unknown>,
): Promise<unknown> {
  const callId = asString(options['toolCallId']);
  if (callId === '') return run(options);
  const { outputWriter, suspend } = options;
  const chunks: unknown[] = [];
  let isNew = false;
  let isSuspended = false;
  const recorded = {
    ...options,
    ...(typeof outputWriter === 'function' && {
      outputWriter: (chunk: unknown, ...more: unknown[]): unknown => {
        addChunk(chunks, chunk);
        return outputWriter(chunk, ...more) as unknown;
      },
    }),
    ...(typeof suspend === 'function' && {
      suspend: (...payload: unknown[]): unknown => {
        isSuspended = true;
        return suspend(...payload) as unknown;
      },
    }),
  };
  const end = await tools.call(
    callId,
    async () => {
      isNew = true;
      const output = await run(recorded);
      return { output, ...(chunks.length > 0 && { chunks }) };
    },
    // A tool that suspends its run has not finished.
    () => !isSuspended,
  );
  const { output, chunks: stored } = asObject(end);
  if (!isNew && Array.isArray(stored) && typeof outputWriter === 'function')
    for (const chunk of stored) await outputWriter(chunk);
  return output;
}

/** Adds a chunk that a tool wrote; the deltas of one text of a sub-agent are joined. */
function addChunk(chunks: unknown[], chunk: unknown): void {
  const [last, next] = [innerOf(chunks.at(-1)), innerOf(chunk)];
  if (!last || !next || last.type !== next.type || last.id !== next.id) chunks.push(chunk);
  else chunks[chunks.length - 1] = last.withText(last.text + next.text);
}

/** The text in a chunk of a sub-agent, and a function that returns the chunk with another one. */
function innerOf(chunk: unknown):
  | {
      readonly type: string;
      readonly id: unknown;
      readonly text: string;
      readonly withText: (text: string) => JsonObject;
    }
  | undefined {
  const outer = asObject(chunk);
  const payload = asObject(outer['payload']);
  const inner = asObject(payload['output']);
  const { id, text } = asObject(inner['payload']);
  const type = asString(inner['type']);
  if ((type !== 'text-delta' && type !== 'reasoning-delta') || typeof text !== 'string')
    return undefined;
  const withText = (joined: string): JsonObject => {
    const output = { ...inner, payload: { ...asObject(inner['payload']), text: joined } };
    return { ...outer, payload: { ...payload, output } };
  };
  return { type, id, text, withText };
}
