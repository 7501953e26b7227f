// The offline model, for `duolane-agent --model module:…/model.js`. It is not a language
// model: it understands the questions of `grammar.ts` and rejects any other.
import { lastUserText, type ModelAnswer, type ModelRequest } from '../support/conversation.ts';
import { NotUnderstood, planQuestion } from './grammar.ts';
import type { PlanOrNone } from './plan.ts';

const OUTPUT_TOOL = 'StructuredOutput';

export default function planner(request: ModelRequest): ModelAnswer {
  const plan = planOrNone(lastUserText(request));
  return { text: plan.explanation, tools: [{ name: OUTPUT_TOOL, input: { ...plan } }] };
}

function planOrNone(question: string): PlanOrNone {
  try {
    return planQuestion(question);
  } catch (error) {
    if (!(error instanceof NotUnderstood)) throw error;
    return { explanation: error.message, tables: [], sql: null };
  }
}
