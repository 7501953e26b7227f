import { expect, test } from 'vitest';
import { memoryDatabase } from '../memory/memory-log.ts';
import { PageBuilder } from '../store/page-builder.ts';
import type { Snapshot } from '../../event/types.ts';
import { listTasks } from './list-tasks.ts';

const EMPTY = { artifacts: [], turns: [], unserved: [], calls: [], pending: [], answers: [] };

test('a task that is pruned while its page is read does not end the list', async () => {
  const names = Array.from({ length: 120 }, (_, index) => `t${index}`);
  let from = 0;
  const store = {
    ...memoryDatabase(),
    async page({ limit }: { readonly limit: number }) {
      const pages = new PageBuilder();
      for (const task of names.slice(from, (from += limit)))
        pages.add(task, { changedAt: 1, key: 1 }, () =>
          // As in PostgreSQL, where the names are read first.
          task === 't7' ? undefined : ({ ...EMPTY, task, text: '' } as unknown as Snapshot),
        );
      return pages.page;
    },
  };
  const listed: string[] = [];
  for await (const { task } of listTasks(store, {}, () => {})) listed.push(task);
  expect(listed).toEqual(names.filter((name) => name !== 't7'));
});
