import { openSession } from '../../../../host/index.ts';
import { sleep } from '../../../../stream/abort.ts';
import { type Fault, FaultReport } from '../fault-types.ts';
import { NaiveHost } from '../naive-host.ts';
import { ONE_CALL, FaultSetup } from '../fault-setup.ts';

const TOOL_MS = 400;

export const lateWrite: Fault = {
  title: 'The session is closed while a tool works, and its answer is written to nobody',
  rule: 'Every answer reaches the CLI, or is dropped because the CLI has gone by our own will',
  doctor: 'tool-answer-lost',
  naive: 'Close the session when the person leaves. The handler does not know, and writes.',
  ours: 'Closing aborts the handler through its signal and waits for it; a late answer is dropped in words, never thrown.',
  async runNaive() {
    const story = new FaultReport();
    await using world = await FaultSetup.open({ script: ONE_CALL, toolMs: TOOL_MS });
    const host = new NaiveHost(world);
    let failure: Error | undefined;
    let handler: Promise<void> | undefined;
    host.prompt('What helps against fever?');
    for await (const line of host.lines()) {
      if (line['type'] !== 'control_request') continue;
      // Not awaited: calls must not wait for each other. So nobody hears that it fails.
      const answered = host.answer(line).catch((error: Error) => (failure = error));
      if (!JSON.stringify(line).includes('"tools/call"')) continue;
      story.tell(`the tool is called; it needs ${TOOL_MS} ms`);
      handler = answered.then(() => {});
      break;
    }
    story.tell('the person leaves: the session is closed');
    await host[Symbol.asyncDispose]();
    await handler;
    story.tell(
      failure ? `the handler is done and writes: ${failure.message}` : 'the answer was written',
    );
    return story.end(
      failure === undefined,
      failure ? 'an error in a promise that nobody holds: it ends the process' : 'nothing happened',
    );
  },
  async runOurs() {
    const story = new FaultReport();
    let aborted = false;
    let called: () => void = () => {};
    const isCalled = new Promise<void>((resolve) => (called = resolve));
    await using world = await FaultSetup.open({
      script: ONE_CALL,
      toolMs: TOOL_MS,
      onTool: (what) => {
        story.tell(`the tool is ${what}`);
        if (what === 'called') called();
        if (what === 'aborted') aborted = true;
      },
    });
    const session = await openSession(world.options());
    await session.send('What helps against fever?');
    await isCalled;
    await sleep(20);
    story.tell(`holding: ${session.holding.join(', ')}`);
    story.tell('the person leaves: the session is closed');
    await session[Symbol.asyncDispose]();
    story.tell('closed; nothing was thrown');
    return story.end(
      aborted,
      aborted ? 'the handler was told, and nothing failed' : 'the handler was not told',
    );
  },
};
