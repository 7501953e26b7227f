import { expect, test } from 'vitest';
import { DuolaneError } from '../../src/errors.ts';
import type { Logger } from '../../src/event/types.ts';
import { serve } from '../../src/serve/index.ts';
import { createRunner } from '../../src/task/index.ts';
import { memoryDatabase, openLog, storeFromCalls } from '../../src/task/store/index.ts';
import { turn } from './replica-world.ts';

const fail = (): never => {
  throw new Error('the logger is broken');
};
const throwing: Logger = { debug: fail, info: fail, warn: fail, error: fail };

/** What would end the process: vitest fails a run with one, and this names it. */
function unhandled(): { readonly seen: unknown[]; readonly stop: () => void } {
  const seen: unknown[] = [];
  const listener = (error: unknown): void => void seen.push(error);
  process.on('unhandledRejection', listener);
  return { seen, stop: () => void process.off('unhandledRejection', listener) };
}

function failingStore() {
  const inner = memoryDatabase();
  const state = { down: false };
  const calls = storeFromCalls(async (name, args) => {
    if (state.down) throw new DuolaneError('server', 'the disk is full');
    return (inner[name] as (...args: unknown[]) => Promise<unknown>)(...args);
  });
  const store = {
    ...calls,
    announcesAll: inner.announcesAll,
    onCommit: inner.onCommit.bind(inner),
    async [Symbol.asyncDispose]() {},
  };
  return { store, state };
}

test('a logger that throws does not end the process when the store of a log fails', async () => {
  const { store, state } = failingStore();
  const { seen, stop } = unhandled();
  await using log = openLog(store, { logger: throwing, pollMs: 10 });
  await using runner = createRunner({
    log,
    logger: throwing,
    agents: { a: () => Promise.reject(new Error('no')) as never },
  });
  await runner.submit(turn('a', 't'));
  state.down = true;
  await expect(log.submit(turn('a', 'u'))).rejects.toMatchObject({ code: 'server' });
  expect(await log.health()).toMatchObject({ ok: false });
  state.down = false;
  expect(await log.health()).toMatchObject({ ok: true });
  await new Promise((resolve) => setTimeout(resolve, 50));
  stop();
  expect(seen).toEqual([]);
});

test('a logger that throws does not end a server, nor change what it answers', async () => {
  const { store, state } = failingStore();
  const { seen, stop } = unhandled();
  await using served = await serve(async function* () {}, {
    log: openLog(store, { logger: throwing }),
    logger: throwing,
    page: false,
  });
  state.down = true;
  const answers = await Promise.all([
    fetch(`${served.url}/readyz`),
    fetch(`${served.url}/api/tasks`),
    fetch(`${served.url}/a2a/agent/tasks/t`),
  ]);
  expect(answers.map(({ status }) => status)).toEqual([503, 503, 503]);
  state.down = false;
  await new Promise((resolve) => setTimeout(resolve, 50));
  stop();
  expect(seen).toEqual([]);
});
