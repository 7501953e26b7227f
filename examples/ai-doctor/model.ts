// The offline model, for `duolane-agent --model module:…/model.js`. It is not a language
// model: it reads the record, plans searches by rules and quotes their results.
import { compose } from './planner/compose.ts';
import { factsOf } from './planner/facts.ts';
import { planSearches } from './planner/plan.ts';
import type { PatientBriefing } from './patient-briefing.ts';
import { type PatientRecord, readRecord } from './record.ts';
import { SEARCH_TOOL } from './names.ts';
import { parseSources, wordsOf } from './sources.ts';

interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: string | readonly { readonly type: string; readonly name?: unknown }[];
}

/** The part of a model request that the planner uses. */
export interface PlannerRequest {
  readonly messages: readonly Message[];
  readonly tools: readonly { readonly name: string }[];
}

export interface PlannerAnswer {
  readonly text: string;
  readonly tools?: readonly { readonly name: string; readonly input: Record<string, unknown> }[];
  /** The delay between two words, and before the first one. */
  readonly delayMs?: number;
  readonly waitMs?: number;
}

/** A person reads about so fast; the planner itself needs some milliseconds. */
const HUMAN_PACE = { delayMs: 85, waitMs: 900 };

const OUTPUT_TOOL = 'StructuredOutput';

/**
 * The next step of a conversation: more searches, or the briefing. Equal conversations give equal
 * steps. In the tour of `npm start` it writes at human speed.
 */
export default function plan(request: PlannerRequest): PlannerAnswer {
  const answer = nextStep(request);
  return process.env['DUOLANE_TOUR'] ? { ...answer, ...HUMAN_PACE } : answer;
}

function nextStep({ messages, tools }: PlannerRequest): PlannerAnswer {
  const from = messages.findLastIndex(({ role, content }) => role === 'user' && isSaid(content));
  const record = recordIn(messages[from]);
  if (typeof record === 'string') return { text: record };
  const facts = factsOf(record);
  const since = messages.slice(from + 1);
  const done = since.filter(({ role }) => role === 'assistant').length;
  const searches = planSearches(facts)[done];
  const search = tools.find(({ name }) => name.endsWith(`__${SEARCH_TOOL}`));
  if (searches && search)
    return {
      text:
        done === 0 ? 'I look up what the guidelines say about this patient. ' : 'I look further. ',
      tools: searches.map((query) => ({ name: search.name, input: { query } })),
    };
  const found = since
    .filter(({ role }) => role === 'user')
    .flatMap(({ content }) => parseSources(wordsOf(content)));
  const briefing = compose(facts, found);
  const output = tools.some(({ name }) => name === OUTPUT_TOOL);
  return {
    text: spoken(briefing),
    ...(output && { tools: [{ name: OUTPUT_TOOL, input: { ...briefing } }] }),
  };
}

function spoken({ summary, medicationSafety, citations, disclaimer }: PatientBriefing): string {
  const first = medicationSafety[0];
  const foremost = first
    ? ` Foremost, about ${first.medications.join(' and ')}: ${first.concern}`
    : '';
  return `${summary}${foremost} (From ${citations.length} passages, by rules and without a language model. ${disclaimer})`;
}

/** Whether the content has text of the user, perhaps next to results of an interrupted turn. */
const isSaid = (content: Message['content']): boolean =>
  typeof content === 'string' || content.some(({ type }) => type === 'text');

/** The record in a message, which may have text around it; without a record, the text to reply. */
function recordIn({ content }: Partial<Message> = {}): PatientRecord | string {
  const text = wordsOf(
    typeof content === 'object' ? content.filter(({ type }) => type === 'text') : content,
  );
  const json = text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1);
  if (json === '') return 'I read patient records as JSON and cannot talk about anything else.';
  try {
    return readRecord(json);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
