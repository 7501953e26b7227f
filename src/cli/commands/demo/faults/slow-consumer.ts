import { openSession } from '../../../../host/index.ts';
import { sleep } from '../../../../stream/abort.ts';
import type { Fault, FaultReport, Side } from '../fault-types.ts';
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
  title: 'A slow consumer delays the tool calls that come after its messages',
  rule: 'Neither lane waits for the other',
  naive: 'One loop reads the pipe: show a message, answer a request, next line.',
  ours: 'A control frame is dispatched when it is parsed. Messages wait in a queue that overflows to disk.',
  async runNaive(report) {
    let asked = 0;
    await using setup = await FaultSetup.open({
      script: SCRIPT,
      onTool: () => (asked = report.ms),
    });
    await using host = new NaiveHost(setup);
    host.prompt('Write a long text, then look it up.');
    let first = 0;
    for await (const line of host.lines()) {
      if (line['type'] === 'control_request') await host.answer(line);
      else {
        if (line['type'] === 'stream_event') first ||= report.ms;
        await sleep(MESSAGE_MS);
      }
      if (asked > 0) break;
    }
    return verdict(report, first, asked);
  },
  async runOurs(report) {
    let asked = 0;
    await using setup = await FaultSetup.open({
      script: SCRIPT,
      onTool: (what) => {
        if (what === 'called') asked = report.ms;
      },
    });
    await using session = await openSession(setup.options());
    await session.send('Write a long text, then look it up.');
    let first = 0;
    for await (const message of session.response()) {
      if (message['type'] === 'stream_event') first ||= report.ms;
      await sleep(MESSAGE_MS);
    }
    return verdict(report, first, asked);
  },
};

function verdict(report: FaultReport, first: number, asked: number): Side {
  const waitedMs = asked - first;
  report.add(`the consumer takes ${MESSAGE_MS} ms for each message`);
  report.add(`the tool was called ${waitedMs} ms after the first text`);
  const kept = waitedMs < PROMPT_MS;
  return report.end(
    kept,
    kept ? 'the call did not wait for the reader' : 'the call waited for the messages before it',
  );
}
