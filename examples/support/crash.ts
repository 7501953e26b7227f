// Runs one task of a sample on a SQLite file, as `duolane serve` would, and kills itself when entry
// `killAt` is readable. Started again on the same file, it goes on; at the end it prints the entries.
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Agent } from 'duolane/event';
import { createRunner, sqliteLog } from 'duolane/task';

const [sample = '', shared = '', killAt = ''] = process.argv.slice(2);

const agents: Readonly<Record<string, () => Promise<{ agent: Agent; message: string }>>> = {
  'ai-doctor': async () => {
    const { briefingAgent } = await import('../ai-doctor/agent.ts');
    const { openGuidelines } = await import('../ai-doctor/retrieval/guidelines.ts');
    const { sampleText } = await import('../ai-doctor/samples.ts');
    const guidelines = await openGuidelines();
    const search = guidelines.search.bind(guidelines);
    const counted: typeof search = (query, options) => {
      appendFileSync(join(shared, 'effects'), `search ${query}\n`);
      return search(query, options);
    };
    return {
      agent: briefingAgent(Object.assign(guidelines, { search: counted })),
      message: await sampleText(),
    };
  },
  tickets: async () => ({
    agent: (await import('../tickets/agent.ts')).default,
    message: "bug: Fix login bug. Users can't log in on mobile",
  }),
  distill: async () => ({
    agent: (await import('../distill/agent.ts')).default,
    message: (await import('../distill/samples.ts')).SAMPLES[0],
  }),
  chat: async () => ({ agent: (await import('../chat/shopper.ts')).shopper, message: 'tea' }),
};

const { agent, message } = (await agents[sample]?.()) ?? {};
if (!agent || message === undefined) throw new Error(`unknown sample "${sample}"`);
const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [{ text: message }] };
const log = await sqliteLog({ file: join(shared, 'log.sqlite') });
const runner = createRunner({ log, agents: { a: agent } });
await runner.submit(turn);
const entries = [];
for await (const entry of log.read('t', 0)) {
  entries.push(entry);
  if (entry.seq === Number(killAt)) {
    process.kill(process.pid, 'SIGKILL');
    await new Promise(() => {});
  }
  if (entry.type !== 'input.required') continue;
  const { id } = entry.request;
  // The person has answered already if the process died after that.
  const { pending = [] } = (await log.get('t')) ?? {};
  if (pending.some((asked) => asked.id === id))
    await runner.submit({
      ...turn,
      messageId: `answer ${entry.seq}`,
      parts: [],
      answers: [{ id, action: 'accept' }],
    });
}
await runner[Symbol.asyncDispose]();
await log[Symbol.asyncDispose]();
console.log(JSON.stringify(entries));
process.exit(0);
