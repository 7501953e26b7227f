import { query } from '../../../../host/index.ts';
import { type Fault, FaultReport } from '../fault-types.ts';
import { NaiveHost } from '../naive-host.ts';
import { judge, ONE_CALL, FaultSetup } from '../fault-setup.ts';

export const stringPrompt: Fault = {
  title: 'A string prompt closes stdin, and tool answers have nowhere to go',
  rule: 'Stdin stays open while the CLI may still ask',
  doctor: 'input-closed-early',
  naive: 'The prompt is a string: write it, close stdin, read the answer.',
  ours: 'A string is wrapped into a stream. Stdin closes when the run is idle, never before.',
  async runNaive() {
    const story = new FaultReport();
    await using world = await FaultSetup.open({
      script: ONE_CALL,
      onTool: () => story.tell('the tool runs'),
    });
    await using host = new NaiveHost(world);
    host.prompt('What helps against fever?');
    host.endInput();
    story.tell('prompt written, stdin closed');
    let answer = '';
    for await (const line of host.lines()) {
      if (line['type'] === 'control_request') {
        story.tell('the CLI asks the host for its tools');
        // There is nobody left to tell: the write fails, and the loop goes on.
        await host.answer(line).catch(() => story.tell('the answer cannot be written'));
      }
      if (line['type'] === 'result') answer = String(line['result']);
    }
    const { code } = await host.cli.exited;
    story.tell(`exit code ${String(code)}, no error; answer: ${answer.slice(0, 90)}`);
    for (const { rule, line, what } of judge(host.frames))
      story.tell(`doctor: line ${line} ${rule}: ${what}`);
    const held = answer.includes('drink, rest');
    return story.end(
      held,
      held ? 'the tool was used' : 'the tool was never used, and nothing failed',
    );
  },
  async runOurs() {
    const story = new FaultReport();
    await using world = await FaultSetup.open({
      script: ONE_CALL,
      onTool: (what) => story.tell(`the tool is ${what}`),
    });
    let answer = '';
    story.tell('query({ prompt: "…" }), the same string');
    for await (const message of query({
      prompt: 'What helps against fever?',
      options: world.options(),
    })) {
      if (message.type === 'result' && message.subtype === 'success') answer = message.result;
    }
    story.tell(`answer: ${answer}`);
    const held = answer.includes('drink, rest');
    return story.end(held, held ? 'the answer of the tool is in it' : 'the tool was not used');
  },
};
