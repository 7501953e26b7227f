import { DuolaneError } from 'duolane';
import { cli } from 'duolane/adapters';
import type { Agent } from 'duolane/event';
import type { ToolUse } from 'duolane/host';
import type { ServeOptions } from 'duolane/serve';
import { artifact } from 'duolane/task';
import { dataPart } from '../support/parts.ts';
import { sessionOptions, type SpecHolder, submitted } from './distill.ts';
import { SAMPLES } from './samples.ts';

/** Distils the transcript in the message; the validated spec is the artifact `agent_spec`. */
const agent: Agent = async function* (turn, ctx) {
  const holder: SpecHolder = {}; // one per run, because runs are concurrent
  const calls: ToolUse[] = [];
  for await (const event of cli(sessionOptions(holder))(turn, ctx)) {
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
};
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
