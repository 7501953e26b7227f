import { expect, test } from 'vitest';
import { turnOf } from '../../../test/support/arbitraries.ts';
import type { Agent, Entry } from '../../event/types.ts';
import { completeTurn } from './complete-turn.ts';
import { createRunner, memoryLog } from '../index.ts';

test('a cancel during a question ends the turn, even if the asker ignores its signal', async () => {
  await using log = memoryLog();
  const agent: Agent = async function* (_turn, ctx) {
    await ctx.ask({ id: 'q', kind: 'question' });
    yield* [];
  };
  await using runner = createRunner({ log, agents: { a: agent }, graceMs: 10 });
  const stop = new AbortController();
  let given: AbortSignal | undefined;
  const ask = (_request: unknown, options?: { readonly signal?: AbortSignal }) => {
    given = options?.signal;
    stop.abort();
    return new Promise<never>(() => {});
  };
  const entries: Entry[] = [];
  const turn = turnOf('m', { agent: 'a', task: 't' });
  for await (const entry of completeTurn({ runner, log }, turn, { ask, signal: stop.signal }))
    entries.push(entry);
  expect(entries.at(-1)).toMatchObject({ type: 'run.finished', outcome: 'canceled' });
  expect(given).toBe(stop.signal);
});
