import { DuolaneError } from '../../../../errors.ts';
import { openSession } from '../../../../host/index.ts';
import { spawnProcess, type ProcessTransport } from '../../../../process/index.ts';
import type { Fault, FaultReport } from '../fault-types.ts';
import { deltaOf, NaiveHost } from '../naive-host.ts';
import { FaultSetup } from '../fault-setup.ts';

const SCRIPT = [{ text: 'Drink a lot, rest, and see a doctor after three days.', delayMs: 40 }];
const PIECES = 4;

export const killCli: Fault = {
  title: 'The CLI is killed during its response, and half a response looks complete',
  rule: 'Every turn ends with a result',
  doctor: 'turn-without-result',
  naive: 'Read lines until the end; the text so far is the response.',
  ours: 'A turn without a result is an error that reports how the process exited, its stderr and last frames.',
  async runNaive(report) {
    await using setup = await FaultSetup.open({ script: SCRIPT });
    await using host = new NaiveHost(setup);
    host.prompt('What helps against fever?');
    let answer = '';
    let pieces = 0;
    let result = false;
    for await (const line of host.lines()) {
      // The CLI may have exited already, since this fault kills it.
      if (line['type'] === 'control_request') await host.answer(line).catch(() => {});
      const delta = deltaOf(line);
      answer += delta ?? '';
      if (delta !== undefined && ++pieces === PIECES) kill(host.cli, report);
      result ||= line['type'] === 'result';
    }
    report.add(`the loop has ended, no error; response: ${answer}`);
    return report.end(
      result,
      result ? 'the response is complete' : 'half a response is taken as complete',
    );
  },
  async runOurs(report) {
    await using setup = await FaultSetup.open({ script: SCRIPT });
    let cli: ProcessTransport | undefined;
    const transport = (launch: Parameters<typeof spawnProcess>[0]): ProcessTransport =>
      (cli = spawnProcess(launch));
    await using session = await openSession({ ...setup.options(), transport });
    await session.send('What helps against fever?');
    let pieces = 0;
    try {
      for await (const message of session.response())
        if (deltaOf(message) !== undefined && ++pieces === PIECES && cli) kill(cli, report);
    } catch (reason) {
      const { code, message } = DuolaneError.from(reason);
      report.add(`${code}: ${message.split('\n')[0]}`);
      return report.end(
        code === 'peer_exited',
        'the caller knows that the response is incomplete, and why',
      );
    }
    return report.end(false, 'no error was raised');
  },
};

function kill(cli: ProcessTransport, report: FaultReport): void {
  if (cli.pid === undefined) return;
  report.add('kill -9 of the CLI');
  process.kill(cli.pid, 'SIGKILL');
}
