// `npx tsx examples/text-to-sql/main.ts ["revenue by city in 2025"]`
import { randomUUID } from 'node:crypto';
import type { Part } from 'duolane/event';
import { createRunner, memoryLog } from 'duolane/task';
import agent, { options } from './agent.ts';
import { letReaderLeave } from '../support/stdout.ts';

letReaderLeave();

const [text = 'revenue by city in 2025'] = process.argv.slice(2);
const place = { agent: 'text-to-sql', task: randomUUID(), context: randomUUID() };

{
  await using log = memoryLog();
  await using runner = createRunner({ log, agents: { 'text-to-sql': agent } });
  console.log(`> ${text}`);
  await runner.submit({ ...place, messageId: randomUUID(), parts: [{ text }] });
  for await (const entry of log.read(place.task, 0)) {
    if (entry.type === 'status') console.log(entry.message);
    if (entry.type === 'artifact') {
      console.log(`\n${entry.name}`);
      entry.parts.forEach(show);
    }
    if (entry.type !== 'run.finished') continue;
    if (entry.error) console.error(`${entry.outcome}: ${entry.error.message}`);
    process.exitCode = entry.outcome === 'completed' ? 0 : 1;
  }
}
for (const resource of options.resources ?? []) await resource[Symbol.asyncDispose]();

function show(part: Part): void {
  if ('text' in part) console.log(part.text);
  else if (!('data' in part)) return;
  else if (Array.isArray(part.data)) console.table(part.data);
  else console.log(JSON.stringify(part.data, null, 2));
}
