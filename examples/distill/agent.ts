import { DuolaneError } from 'duolane';
import { cli } from 'duolane/adapters';
import type { Agent, AgentContext, AgentEvent, Turn } from 'duolane/event';
import type { ToolUse } from 'duolane/host';
import type { ServeOptions } from 'duolane/serve';
import { artifact } from 'duolane/task';
import { dataPart } from '../support/parts.ts';
import { sessionOptions, type SpecHolder, SUBMIT_TOOL, submitted } from './distill.ts';
import { SAMPLES } from './samples.ts';

/** Distils the transcript in the message; the validated spec is the artifact `agent_spec`. */
async function* distilling(
  turn: Turn,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, void, undefined> {
  const holder: SpecHolder = {}; // one per run, because runs are concurrent
  const calls: ToolUse[] = [];
  // After a crash the call of the tool is not made again: its spec is in the log.
  const key = `spec/${Buffer.from(turn.messageId).toString('hex').slice(0, 400)}`;
  for await (const [found, spec] of ctx.storage?.list(key) ?? []) {
    if (found !== key) continue;
    holder.spec = spec;
    calls.push({ id: 'kept', name: SUBMIT_TOOL, input: undefined, isError: false });
  }
  const keep = async (spec: unknown): Promise<void> => ctx.storage?.set({ [key]: spec });
  for await (const event of cli(sessionOptions(holder, keep))(turn, ctx)) {
    if (event.type === 'tool.completed')
      calls.push({ id: event.callId, name: event.name, input: undefined, isError: false });
    if (event.type === 'tool.failed') {
      const { callId: id, name, error } = event;
      calls.push({ id, name, input: undefined, isError: true, content: error.message });
    }
    if (event.type !== 'run.finished' || event.outcome !== 'completed') {
      yield event;
      continue;
    }
    try {
      yield artifact('agent_spec', [dataPart(submitted({ calls }, holder, event.text))]);
      yield event;
    } catch (error) {
      yield { ...event, outcome: 'failed', error: DuolaneError.from(error).toJSON() };
    }
    return;
  }
}

const agent: Agent = Object.assign(distilling, { continues: true, resumable: true });
export default agent;

export const options: ServeOptions = {
  card: {
    name: 'Distill',
    description: 'Reads the transcript of an agent and returns the agent as a validated spec.',
    skills: [
      {
        id: 'distill',
        name: 'Distil an agent',
        description: 'From a transcript with the lines User:, Assistant: and Tool: to a spec.',
        tags: ['structured-output'],
        examples: [...SAMPLES],
      },
    ],
    inputModes: ['text/plain'],
    outputModes: ['application/json', 'text/plain'],
  },
  form: { examples: [...SAMPLES] },
};
