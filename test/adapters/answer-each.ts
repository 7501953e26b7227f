import type { Answer } from '../../src/ask.ts';
import type { Agent } from '../../src/event/types.ts';
import { createRunner, memoryLog } from '../../src/task/index.ts';
import { turnOf } from '../support/arbitraries.ts';

/**
 * Runs one turn of an agent on a log, and answers its questions in order. Returns the texts of the
 * questions. By default each question suspends the run, as a restart does.
 */
export async function answerEach(
  agent: Agent,
  actions: readonly Answer['action'][],
  { suspendAfterMs = 0 }: { readonly suspendAfterMs?: number } = {},
): Promise<readonly (string | undefined)[]> {
  await using log = memoryLog();
  await using runner = createRunner({ log, agents: { echo: agent }, suspendAfterMs });
  const turn = { ...turnOf('m1'), agent: 'echo' };
  await runner.submit(turn);
  const asked: (string | undefined)[] = [];
  let open: string | undefined;
  for await (const entry of log.read(turn.task, 0)) {
    if (entry.type === 'input.required') {
      asked.push(entry.request.message);
      open = entry.request.id;
    }
    const isSuspended = entry.type === 'run.finished' && entry.outcome === 'input-required';
    if (open === undefined || (suspendAfterMs === 0 && !isSuspended)) continue;
    const action = actions[asked.length - 1] ?? 'cancel';
    const answers = [{ id: open, action }];
    open = undefined;
    await runner.submit({ ...turn, messageId: `answer-${asked.length}`, parts: [], answers });
  }
  return asked;
}
