import type { IncomingMessage, ServerResponse } from 'node:http';
import { connectA2A } from '../../../../a2a/index.ts';
import type { Agent } from '../../../../event/types.ts';
import { serve } from '../../../../serve/index.ts';
import { sleep } from '../../../../stream/abort.ts';
import { reportUnexpected } from '../../../../stream/report-unexpected.ts';
import { memoryLog } from '../../../../task/memory/memory-log.ts';
import type { Fault, FaultReport, Side } from '../fault-types.ts';
import { naiveServer } from '../naive-server.ts';

const STEPS = 20;
const STEP_MS = 30;

export const cancelOtherReplica: Fault = {
  title: 'A cancel reaches another replica than the one that runs the task',
  rule: 'A cancel reaches the run, wherever it is',
  naive: 'Each replica has a Map of its runs; cancel searches there.',
  ours: 'A cancel is an entry in the shared log; the replica that runs the task is notified.',
  async runNaive(report, signal) {
    let steps = 0;
    let ended: () => void = () => {};
    const isEnded = new Promise<void>((resolve) => (ended = resolve));
    const replica = (): ((request: IncomingMessage, response: ServerResponse) => void) => {
      const running = new Map<string, AbortController>();
      return (request, response) => {
        const [, action, task = ''] = (request.url ?? '').split('/');
        if (action === 'cancel') {
          const found = running.get(task);
          found?.abort();
          response.writeHead(found ? 200 : 404).end();
          return;
        }
        const stop = new AbortController();
        running.set(task, stop);
        work(stop.signal, () => (steps += 1))
          .finally(ended)
          .catch(reportUnexpected);
        response.writeHead(202).end();
      };
    };
    await using a = await naiveServer(replica());
    await using b = await naiveServer(replica());
    await fetch(`${a.url}/start/task-1`, { signal });
    report.add('replica A runs the task');
    await sleep(3 * STEP_MS);
    const { status } = await fetch(`${b.url}/cancel/task-1`, { signal });
    report.add(`cancel at replica B: ${status}`);
    await isEnded;
    return verdict(report, steps);
  },
  async runOurs(report, signal) {
    let steps = 0;
    const agent: Agent = async function* (_turn, ctx) {
      yield { type: 'status', message: 'working' };
      await work(ctx.signal, () => (steps += 1));
    };
    await using log = memoryLog();
    await using a = await serve(agent, { log, page: false });
    await using b = await serve(agent, { log, page: false });
    const [atA, atB] = [await connectA2A(a.url, { signal }), await connectA2A(b.url, { signal })];
    const stream = atA.stream('work');
    let canceled: Promise<unknown> | undefined;
    for await (const event of stream) {
      if (canceled || !('statusUpdate' in event)) continue;
      report.add('replica A runs the task; A and B share a log');
      await sleep(3 * STEP_MS);
      canceled = atB.cancel(stream.taskId ?? '');
      report.add('cancel at replica B');
    }
    await canceled;
    report.add(`the stream at A ends as ${String(stream.status?.state)}`);
    return verdict(report, steps);
  },
};

async function work(signal: AbortSignal, onStep: () => void): Promise<void> {
  for (let step = 0; step < STEPS && !signal.aborted; step++) {
    // An abort ends the wait, and the loop checks the signal.
    await sleep(STEP_MS, signal).catch(() => {});
    onStep();
  }
}

function verdict(report: FaultReport, steps: number): Side {
  report.add(`the agent did ${steps} of ${STEPS} steps`);
  const kept = steps < STEPS;
  return report.end(kept, kept ? 'it stopped' : 'it ran to the end, at your cost');
}
