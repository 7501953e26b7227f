import type { Agent } from 'duolane/event';
import { createRunner, memoryLog } from 'duolane/task';

const counter: Agent = async function* () {
  for (const delta of ['one ', 'two ', 'three']) yield { type: 'text.delta', id: 'count', delta };
};

await using log = memoryLog();
await using runner = createRunner({ log, agents: { counter } });
const turn = { agent: 'counter', task: 't1', context: 'c1', messageId: 'm1' };
await runner.submit({ ...turn, parts: [{ text: 'Count.' }] });

for await (const { seq, type } of log.read('t1', 0)) {
  console.log(seq, type);
  if (type === 'run.started') break; // this reader disconnects; the run continues
}
for await (const { seq, type } of log.read('t1', 2)) console.log(seq, type); // the rest
