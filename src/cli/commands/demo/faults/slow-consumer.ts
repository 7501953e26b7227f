import { openSession } from '../../../../host/index.ts';
import { sleep } from '../../../../stream/abort.ts';
import { type Fault, FaultReport } from '../fault-types.ts';
import { NaiveHost } from '../naive-host.ts';
import { FaultSetup } from '../fault-setup.ts';

const WORDS = Array.from({ length: 60 }, (_, n) => `word${n}`).join(' ');
const SCRIPT = [
  { text: WORDS, tools: [{ name: 'mcp__guide__search', input: {} }] },
  { text: 'The guide says: {{last}}' },
];
/** How long the consumer takes for one message: a slow screen, a slow database. */
const MESSAGE_MS = 15;
const PROMPT_MS = 500;

export const slowConsumer: Fault = {
  title: 'A consumer that is slow holds up the tool calls behind its messages',
  rule: 'Nothing on one lane waits for the other',
  naive: 'One loop reads the pipe: show a message, answer a request, next line.',
  ours: 'A control frame is dispatched when it is parsed. Messages wait in a queue that spills to disk.',
  async runNaive() {
    const story = new FaultReport();
    let asked = 0;
    await using world = await FaultSetup.open({ script: SCRIPT, onTool: () => (asked = story.ms) });
    await using host = new NaiveHost(world);
    host.prompt('Tell me a lot, then look it up.');
    let first = 0;
    for await (const line of host.lines()) {
      if (line['type'] === 'control_request') await host.answer(line);
      else {
        if (line['type'] === 'stream_event') first ||= story.ms;
        await sleep(MESSAGE_MS);
      }
      if (asked > 0) break;
    }
    return verdict(story, first, asked);
  },
  async runOurs() {
    const story = new FaultReport();
    let asked = 0;
    await using world = await FaultSetup.open({
      script: SCRIPT,
      onTool: (what) => {
        if (what === 'called') asked = story.ms;
      },
    });
    await using session = await openSession(world.options());
    await session.send('Tell me a lot, then look it up.');
    let first = 0;
    for await (const message of session.response()) {
      if (message['type'] === 'stream_event') first ||= story.ms;
      await sleep(MESSAGE_MS);
    }
    return verdict(story, first, asked);
  },
};

function verdict(story: FaultReport, first: number, asked: number): ReturnType<FaultReport['end']> {
  const waitedMs = asked - first;
  story.tell(`the consumer takes ${MESSAGE_MS} ms for each message`);
  story.tell(`the tool was called ${waitedMs} ms after the first piece of text`);
  const held = waitedMs < PROMPT_MS;
  return story.end(
    held,
    held ? 'the call did not wait for the reader' : 'the call waited behind the messages',
  );
}
