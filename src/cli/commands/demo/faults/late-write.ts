import { openSession } from '../../../../host/index.ts';
import { sleep } from '../../../../stream/abort.ts';
import type { Fault } from '../fault-types.ts';
import { NaiveHost } from '../naive-host.ts';
import { ONE_CALL, FaultSetup } from '../fault-setup.ts';

const TOOL_MS = 400;

export const lateWrite: Fault = {
  title: 'The session is closed while a tool runs, and its result is written to a closed pipe',
  rule: 'Every result reaches the CLI, or is dropped because the host closed the session',
  doctor: 'tool-answer-lost',
  naive: 'Close the session when the user exits. The handler is not notified, and writes.',
  ours: 'Closing aborts the signal of the handler and waits for it; a late result is dropped and logged, never thrown.',
  async runNaive(report) {
    await using setup = await FaultSetup.open({ script: ONE_CALL, toolMs: TOOL_MS });
    const host = new NaiveHost(setup);
    let failure: Error | undefined;
    let handler: Promise<void> | undefined;
    host.prompt('What helps against fever?');
    for await (const line of host.lines()) {
      if (line['type'] !== 'control_request') continue;
      // Not awaited, since calls must not wait for each other. So its failure is not handled.
      const answered = host.answer(line).catch((error: Error) => (failure = error));
      if (!JSON.stringify(line).includes('"tools/call"')) continue;
      report.add(`the tool is called; it needs ${TOOL_MS} ms`);
      handler = answered.then(() => {});
      break;
    }
    report.add('the person leaves: the session is closed');
    await host[Symbol.asyncDispose]();
    await handler;
    report.add(
      failure ? `the handler is done and writes: ${failure.message}` : 'the result was written',
    );
    return report.end(
      failure === undefined,
      failure ? 'an unhandled rejection, which ends the process' : 'nothing happened',
    );
  },
  async runOurs(report) {
    let aborted = false;
    let called: () => void = () => {};
    const isCalled = new Promise<void>((resolve) => (called = resolve));
    await using setup = await FaultSetup.open({
      script: ONE_CALL,
      toolMs: TOOL_MS,
      onTool: (what) => {
        report.add(`the tool is ${what}`);
        if (what === 'called') called();
        if (what === 'aborted') aborted = true;
      },
    });
    const session = await openSession(setup.options());
    await session.send('What helps against fever?');
    await isCalled;
    await sleep(20);
    report.add(`holding: ${session.holding.join(', ')}`);
    report.add('the person leaves: the session is closed');
    await session[Symbol.asyncDispose]();
    report.add('closed; nothing was thrown');
    return report.end(
      aborted,
      aborted ? 'the handler was aborted, and nothing failed' : 'the handler was not aborted',
    );
  },
};
