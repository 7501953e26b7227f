import { MessageChannel } from 'node:worker_threads';
import { DuolaneError } from '../../src/errors.ts';
import {
  memoryDatabase,
  storeFromCalls,
  type Commit,
  type Store,
} from '../../src/task/store/index.ts';

interface Question {
  readonly id: number;
  readonly method: keyof Store;
  readonly args: readonly unknown[];
}
type News =
  | { readonly commit: Commit }
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly failure: ReturnType<DuolaneError['toJSON']> };

/**
 * A store as a user would write one, with nothing but the door `duolane/task`: the database is
 * behind a wire, and what travels there is plain data.
 */
export async function storeBehindWire(): Promise<Store> {
  const { port1: here, port2: there } = new MessageChannel();
  const database = memoryDatabase();
  database.onCommit((commit) => there.postMessage({ commit } satisfies News));
  there.on('message', ({ id, method, args }: Question) => {
    const call = database[method] as (...args: readonly unknown[]) => Promise<unknown>;
    call(...args).then(
      (value) => there.postMessage({ id, value } satisfies News),
      (error: unknown) =>
        there.postMessage({ id, failure: DuolaneError.from(error).toJSON() } satisfies News),
    );
  });

  const waiting = new Map<number, (news: News) => void>();
  const listeners = new Set<(commit: Commit) => void>();
  let ids = 0;
  here.on('message', (news: News) => {
    if ('commit' in news) for (const listener of listeners) listener(news.commit);
    else waiting.get(news.id)?.(news);
  });
  const calls = storeFromCalls(
    (method, args) =>
      new Promise((resolve, reject) => {
        const id = ++ids;
        waiting.set(id, (news) => {
          waiting.delete(id);
          if ('value' in news) resolve(news.value);
          else if ('failure' in news)
            reject(new DuolaneError(news.failure.code, news.failure.message, news.failure));
        });
        here.postMessage({ id, method, args } satisfies Question);
      }),
  );
  return {
    ...calls,
    announcesAll: true,
    onCommit(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async [Symbol.asyncDispose]() {
      here.close();
    },
  };
}
