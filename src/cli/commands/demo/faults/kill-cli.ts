import { DuolaneError } from '../../../../errors.ts';
import { openSession } from '../../../../host/index.ts';
import { spawnProcess, type ProcessTransport } from '../../../../process/index.ts';
import { type Fault, FaultReport } from '../fault-types.ts';
import { deltaOf, NaiveHost } from '../naive-host.ts';
import { FaultSetup } from '../fault-setup.ts';

const SCRIPT = [{ text: 'Drink a lot, rest, and see a doctor after three days.', delayMs: 40 }];
const PIECES = 4;

export const killCli: Fault = {
  title: 'The CLI is killed in mid-sentence, and half an answer looks like a whole one',
  rule: 'Every turn ends with a result',
  doctor: 'turn-without-result',
  naive: 'Read lines until there are none; what has come is the answer.',
  ours: 'A turn without its result is an error that says how the process ended, with its stderr and last frames.',
  async runNaive() {
    const story = new FaultReport();
    await using world = await FaultSetup.open({ script: SCRIPT });
    await using host = new NaiveHost(world);
    host.prompt('What helps against fever?');
    let answer = '';
    let pieces = 0;
    let result = false;
    for await (const line of host.lines()) {
      // The CLI may be gone already: killing it is what this fault shows.
      if (line['type'] === 'control_request') await host.answer(line).catch(() => {});
      const delta = deltaOf(line);
      answer += delta ?? '';
      if (delta !== undefined && ++pieces === PIECES) kill(host.cli, story);
      result ||= line['type'] === 'result';
    }
    story.tell(`the loop has ended, no error; answer: ${answer}`);
    return story.end(
      result,
      result ? 'the answer is whole' : 'half an answer is taken for all of it',
    );
  },
  async runOurs() {
    const story = new FaultReport();
    await using world = await FaultSetup.open({ script: SCRIPT });
    let cli: ProcessTransport | undefined;
    const transport = (launch: Parameters<typeof spawnProcess>[0]): ProcessTransport =>
      (cli = spawnProcess(launch));
    await using session = await openSession({ ...world.options(), transport });
    await session.send('What helps against fever?');
    let pieces = 0;
    try {
      for await (const message of session.response())
        if (deltaOf(message) !== undefined && ++pieces === PIECES && cli) kill(cli, story);
    } catch (reason) {
      const { code, message } = DuolaneError.from(reason);
      story.tell(`${code}: ${message.split('\n')[0]}`);
      return story.end(
        code === 'peer_exited',
        'the caller knows that the answer is not whole, and why',
      );
    }
    return story.end(false, 'no error was raised');
  },
};

function kill(cli: ProcessTransport, story: FaultReport): void {
  if (cli.pid === undefined) return;
  story.tell('kill -9 of the CLI');
  process.kill(cli.pid, 'SIGKILL');
}
