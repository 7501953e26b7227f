import { type EvalCase, evaluate, type Scorer } from 'duolane/eval';
import type { Agent } from 'duolane/event';

const greeter: Agent = async function* (turn) {
  const [part] = turn.parts;
  const name = part && 'text' in part ? part.text : 'you';
  yield { type: 'text.delta', id: 'hello', delta: `Hello ${name}.` };
};
const cases: EvalCase[] = [
  { name: 'greets by name', input: 'Ada', expect: { text: 'hello ada', totalMs: 60_000 } },
];
const short: Scorer = ({ text }) => {
  const pass = text.length < 100;
  return { name: 'short', value: pass ? 1 : 0, pass, ...(!pass && { why: 'too long' }) };
};

for await (const run of evaluate(greeter, cases, { scorers: [short] }))
  for (const { name, value } of run.scores) console.log(run.case.name, name, value);
