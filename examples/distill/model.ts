// The offline model, for `duolane-agent --model module:…/model.js`. It is not a language
// model: it parses a transcript by its labels (User, Assistant, Tool) and counts words.
import {
  lastUserText,
  type ModelAnswer,
  type ModelRequest,
  toolResults,
} from '../support/conversation.ts';
import type { DistillAgentSpec } from './spec.ts';

const NOTE = '(By rules, without a language model.)';

export default function distiller(request: ModelRequest): ModelAnswer {
  const [result] = toolResults(request);
  if (result) return { text: `${result.text} ${NOTE}` };
  const submit = request.tools.find(({ name }) => name.endsWith('__submit_distill_spec'));
  const spec = distillText(lastUserText(request));
  if (!spec || !submit)
    return { text: `I see no transcript: lines that begin with "User:" and "Assistant:". ${NOTE}` };
  return {
    text: 'I hand in what the transcript shows. ',
    tools: [{ name: submit.name, input: { ...spec } }],
  };
}

interface Line {
  readonly who: 'user' | 'assistant' | 'tool';
  readonly text: string;
}

/**
 * The spec of the agent in a transcript; undefined without a question or without an answer in it.
 */
export function distillText(transcript: string): DistillAgentSpec | undefined {
  const examples: { input: string; output: string; tools: string[] }[] = [];
  const inputs = new Map<string, string>();
  let open: { input: string; tools: string[] } | undefined;
  for (const { who, text } of linesOf(transcript)) {
    if (who === 'user') open = { input: text, tools: [] };
    else if (!open) continue;
    else if (who === 'tool') {
      const [, name = text, input = ''] = /^([\w.-]+)\s*\(?(.*?)\)?$/s.exec(text) ?? [];
      open.tools.push(name);
      if (!inputs.has(name)) inputs.set(name, input);
    } else {
      examples.push({ ...open, output: text });
      open = undefined;
    }
  }
  const [first] = examples;
  if (!first) return undefined;
  const tools = [...inputs].map(([name, input]) => ({
    name,
    purpose: input === '' ? `Used as ${name}()` : `Used as ${name}(${input})`,
  }));
  const subject = keyword(examples.map(({ input }) => input).join(' '));
  const purpose = `Serves requests such as: ${first.input}`;
  return {
    name: `${subject}-agent`,
    purpose,
    systemPrompt: [
      `You serve requests about ${subject}.`,
      ...(tools.length > 0
        ? [`Use ${tools.map(({ name }) => name).join(' and ')} before you answer.`]
        : []),
      'Answer as briefly as in the examples.',
    ].join(' '),
    tools,
    examples: examples.slice(0, 20),
  };
}

/** A label starts a line; text without one continues it. Text before the first label is ignored. */
function linesOf(transcript: string): readonly Line[] {
  const lines: { who: Line['who']; text: string }[] = [];
  for (const line of transcript.split(/\r?\n/)) {
    const [, label, text] = /^(user|assistant|tool):(.*)$/i.exec(line.trim()) ?? [];
    const open = lines.at(-1);
    if (label) lines.push({ who: label.toLowerCase() as Line['who'], text: text ?? '' });
    else if (open) open.text += `\n${line}`;
  }
  return lines
    .map(({ who, text }) => ({ who, text: text.trim() }))
    .filter(({ text }) => text !== '');
}

/** The most frequent word of five letters or more; of equally frequent ones the first. */
function keyword(text: string): string {
  const counts = new Map<string, number>();
  for (const word of text.toLowerCase().match(/[a-z]{5,30}/g) ?? [])
    counts.set(word, (counts.get(word) ?? 0) + 1);
  let best = 'small';
  for (const [word, count] of counts) if (count > (counts.get(best) ?? 0)) best = word;
  return best;
}
