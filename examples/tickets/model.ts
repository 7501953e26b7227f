// The offline model, for `duolane-agent --model module:…/model.js`. It is not a language
// model: it reads each line as a ticket and looks for a few keywords.
import { randomUUID } from 'node:crypto';
import {
  lastUserText,
  type ModelAnswer,
  type ModelRequest,
  toolResults,
} from '../support/conversation.ts';

const HELP =
  'I file tickets. Write one per line, such as "bug: Fix login bug. Users can\'t log in on mobile".';
const NOTE = '(By rules, without a language model.)';

/** The next step of the conversation: one call per line, or the results of the calls. */
export default function clerk(request: ModelRequest): ModelAnswer {
  const results = toolResults(request);
  if (results.length > 0) {
    const said = results.map(({ text, isError }) => (isError ? `That failed. ${text}` : text));
    return { text: [...said, NOTE].join('\n') };
  }
  const create = request.tools.find(({ name }) => name.endsWith('__create_ticket'));
  const drafts = readLines(lastUserText(request));
  if (drafts.length === 0 || !create) return { text: `${HELP} ${NOTE}` };
  return {
    text: drafts.length === 1 ? 'I stage the ticket. ' : `I stage ${drafts.length} tickets. `,
    // A new id per call, like that of a real model: the board stores tickets under it.
    tools: drafts.map((input) => ({ name: create.name, input, id: `toolu_${randomUUID()}` })),
  };
}

interface Draft extends Readonly<Record<string, unknown>> {
  readonly title: string;
  readonly description: string;
  readonly kind: string;
}

/** Parses `kind: title. description` on each line; without a kind, keywords decide. */
export function readLines(text: string): readonly Draft[] {
  return text
    .split('\n')
    .map((line) => line.trim().replace(/^[-*]\s+/, ''))
    .filter((line) => line.split(/\s+/).length > 1)
    .map((line) => {
      const [head = '', given] = /^(\w{1,20}):\s/.exec(line) ?? [];
      const rest = line.slice(head.length).trim();
      // The first sentence is the title, the rest is the description.
      const end = rest.slice(1).search(/[.!?]\s/) + 1;
      const title = end > 0 ? rest.slice(0, end) : rest;
      return {
        title: title.replace(/[.!?]$/, ''),
        description: end > 0 ? rest.slice(end + 1).trim() : rest,
        kind: given?.toLowerCase() ?? kindOf(rest),
      };
    });
}

function kindOf(text: string): string {
  if (/\b(bug|crash\w*|error|fail\w*|broken|can't|cannot|wrong|fix)\b/i.test(text)) return 'bug';
  if (/\b(add|support|allow|new|want|wish|feature)\b/i.test(text)) return 'feature';
  return 'task';
}
