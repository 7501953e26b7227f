import { DuolaneError } from 'duolane';
import { cli } from 'duolane/adapters';
import type { Agent, AgentEvent, Turn } from 'duolane/event';
import type { ServeOptions } from 'duolane/serve';
import { z } from 'zod';
import { BriefingGenerationError } from './errors.ts';
import { SEARCH_TOOL_FULL } from './names.ts';
import { checkBriefing } from './patient-briefing.ts';
import { PatientRecord, readRecord } from './record.ts';
import { openGuidelines } from './retrieval/guidelines.ts';
import { samplePatients } from './samples.ts';
import { sessionOptions } from './session.ts';
import { parseSources, type Source, wordsOf } from './sources.ts';

const guidelines = await openGuidelines();
const inner = cli(sessionOptions(guidelines));

/**
 * The AI Doctor as an agent: reports each search as status, streams the text of the model, and
 * returns the validated briefing as the artifact `briefing`. An invalid record is `rejected` before
 * the run starts; a briefing with a citation that no search returned fails the run.
 */
async function* briefing(
  turn: Turn,
  ctx: Parameters<Agent>[1],
): AsyncGenerator<AgentEvent, void, undefined> {
  const problem = problemWith(turn);
  if (problem !== undefined) {
    yield { type: 'run.started' };
    yield finished('rejected', new DuolaneError('invalid', problem));
    return;
  }
  const returned: Source[] = [];
  for await (const event of inner(turn, ctx)) {
    if (event.type === 'run.started') {
      yield event;
      yield {
        type: 'status',
        message: `Reading the record; guidelines are searched by ${guidelines.note}`,
      };
      continue;
    }
    if (event.type === 'tool.called' && event.name === SEARCH_TOOL_FULL)
      yield { type: 'status', message: `Searching the guidelines: ${queryOf(event.args)}` };
    if (event.type === 'tool.completed' && event.name === SEARCH_TOOL_FULL)
      returned.push(...parseSources(wordsOf(event.output)));
    if (event.type === 'run.finished' && event.outcome === 'completed') {
      yield* checked(event.output, returned, event);
      return;
    }
    yield event;
  }
}

function* checked(
  output: unknown,
  returned: readonly Source[],
  end: AgentEvent,
): Generator<AgentEvent, void, undefined> {
  try {
    const data = checkBriefing(output, returned);
    yield {
      type: 'artifact',
      artifactId: 'briefing',
      name: 'briefing',
      parts: [{ data, mediaType: 'application/json' }],
      last: true,
    };
    yield end;
  } catch (error) {
    if (!(error instanceof BriefingGenerationError)) throw error;
    yield finished('failed', new DuolaneError('malformed', `${error.code}: ${error.message}`));
  }
}

const finished = (outcome: 'failed' | 'rejected', error: DuolaneError): AgentEvent => ({
  type: 'run.finished',
  outcome,
  text: '',
  error: error.toJSON(),
});

/** Why the turn is rejected; undefined for a valid one, and for one that has only answers. */
function problemWith({ parts }: Turn): string | undefined {
  if (parts.length === 0) return undefined;
  // A message with data may also have text.
  const given = parts.find((part) => 'data' in part) ?? parts.find((part) => 'text' in part);
  if (!given) return 'send a patient record as JSON, as text or as data';
  try {
    readRecord('data' in given ? given.data : 'text' in given ? given.text : undefined);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const queryOf = (args: unknown): string =>
  typeof args === 'object' && args !== null && 'query' in args ? String(args.query) : '';

const agent: Agent = Object.assign(briefing, {
  continues: inner.continues ?? false,
  resumable: inner.resumable ?? false,
});
export default agent;

const samples = await samplePatients();

export const options: ServeOptions = {
  card: {
    name: 'AI Doctor',
    description:
      'Reads a patient record, searches clinical guidelines and writes a briefing whose every statement cites its source. Educational, not medical advice.',
    skills: [
      {
        id: 'patient-briefing',
        name: 'Patient briefing',
        description:
          'From a patient record as JSON: findings, medication safety, suggested actions and screenings, with citations.',
        tags: ['health', 'rag', 'structured-output'],
        examples: samples.slice(0, 3).map((sample) => JSON.stringify(sample)),
      },
    ],
    inputModes: ['application/json', 'text/plain'],
    outputModes: ['application/json', 'text/plain'],
  },
  form: {
    ...z.toJSONSchema(PatientRecord),
    examples: samples,
    // The page then offers a tour with this agent.
    ...(process.env['DUOLANE_TOUR'] && { 'x-tour': true }),
  },
  resources: [guidelines],
};
