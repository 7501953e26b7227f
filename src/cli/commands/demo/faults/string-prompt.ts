import { query } from '../../../../host/index.ts';
import type { Fault } from '../fault-types.ts';
import { NaiveHost } from '../naive-host.ts';
import { judge, ONE_CALL, FaultSetup } from '../fault-setup.ts';

export const stringPrompt: Fault = {
  title: 'A string prompt closes stdin, and tool results cannot be sent',
  rule: 'Stdin stays open while the CLI may still send requests',
  doctor: 'input-closed-early',
  naive: 'The prompt is a string: write it, close stdin, read the response.',
  ours: 'A string is wrapped into a stream. Stdin closes when the run is idle, never before.',
  async runNaive(report) {
    await using setup = await FaultSetup.open({
      script: ONE_CALL,
      onTool: () => report.add('the tool runs'),
    });
    await using host = new NaiveHost(setup);
    host.prompt('What helps against fever?');
    host.endInput();
    report.add('prompt written, stdin closed');
    let answer = '';
    for await (const line of host.lines()) {
      if (line['type'] === 'control_request') {
        report.add('the CLI requests the tools of the host');
        // Stdin is closed: the write fails, and the loop continues.
        await host.answer(line).catch(() => report.add('the response cannot be written'));
      }
      if (line['type'] === 'result') answer = String(line['result']);
    }
    const { code } = await host.cli.exited;
    report.add(`exit code ${String(code)}, no error; response: ${answer.slice(0, 90)}`);
    for (const { rule, line, what } of judge(host.frames))
      report.add(`doctor: line ${line} ${rule}: ${what}`);
    const kept = answer.includes('drink, rest');
    return report.end(
      kept,
      kept ? 'the tool was used' : 'the tool was never used, and nothing failed',
    );
  },
  async runOurs(report) {
    await using setup = await FaultSetup.open({
      script: ONE_CALL,
      onTool: (what) => report.add(`the tool is ${what}`),
    });
    let answer = '';
    report.add('query({ prompt: "…" }), the same string');
    for await (const message of query({
      prompt: 'What helps against fever?',
      options: setup.options(),
    })) {
      if (message.type === 'result' && message.subtype === 'success') answer = message.result;
    }
    report.add(`response: ${answer}`);
    const kept = answer.includes('drink, rest');
    return report.end(kept, kept ? 'it contains the result of the tool' : 'the tool was not used');
  },
};
