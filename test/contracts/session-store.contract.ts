import { describe, expect, test } from 'vitest';
import type { SessionStore } from '../../src/host/index.ts';

type Disposable = SessionStore & Partial<AsyncDisposable>;

/** What every session store that we ship promises. `open` gives an empty one. */
export function sessionStoreContract(name: string, open: () => Promise<Disposable>): void {
  describe(`session store: ${name}`, () => {
    const main = { projectKey: '-home-ann', sessionId: 's1' };

    const withStore =
      (run: (store: Required<SessionStore>) => Promise<void>) => async (): Promise<void> => {
        const store = await open();
        try {
          await run(store as Required<SessionStore>);
        } finally {
          await store[Symbol.asyncDispose]?.();
        }
      };

    test(
      'keeps the entries of a transcript in the order of appends',
      withStore(async (store) => {
        expect(await store.load(main)).toBeNull();
        await store.append(main, [{ type: 'user', uuid: 'a' }, { type: 'assistant' }]);
        await store.append(main, [{ type: 'user', text: 'ü\n\u0000"' }]);
        expect(await store.load(main)).toEqual([
          { type: 'user', uuid: 'a' },
          { type: 'assistant' },
          { type: 'user', text: 'ü\n\u0000"' },
        ]);
      }),
    );

    test(
      'separates projects, sessions and subagents',
      withStore(async (store) => {
        const keys = [
          main,
          { ...main, projectKey: '-home-bob' },
          { ...main, sessionId: 's2' },
          { ...main, subpath: 'subagents/agent-1' },
          { ...main, subpath: 'subagents/agent-2' },
        ];
        for (const [index, key] of keys.entries()) await store.append(key, [{ index }]);
        for (const [index, key] of keys.entries())
          expect(await store.load(key)).toEqual([{ index }]);
        const listed = await store.listSessions(main.projectKey);
        expect(listed.map(({ sessionId }) => sessionId).toSorted()).toEqual(['s1', 's2']);
        expect((await store.listSubkeys(main)).toSorted()).toEqual([
          'subagents/agent-1',
          'subagents/agent-2',
        ]);
      }),
    );

    test(
      'says when a session last changed',
      withStore(async (store) => {
        await store.append(main, [{ n: 1 }]);
        const [first] = await store.listSessions(main.projectKey);
        expect(first?.mtime).toBeGreaterThan(Date.UTC(2020, 0));
        expect(Number.isInteger(first?.mtime)).toBe(true);
      }),
    );

    test(
      'deletes one transcript',
      withStore(async (store) => {
        await store.append(main, [{ n: 1 }]);
        await store.append({ ...main, sessionId: 's2' }, [{ n: 2 }]);
        await store.delete(main);
        await store.delete(main);
        expect(await store.load(main)).toBeNull();
        expect(await store.load({ ...main, sessionId: 's2' })).toEqual([{ n: 2 }]);
      }),
    );

    test(
      'takes any text as the name of a project, session or subagent',
      withStore(async (store) => {
        const names = ['..', '.', '../../x', '/etc/passwd', 'a\\b', '%2e%2e', 'é'];
        for (const each of names)
          await store.append({ projectKey: each, sessionId: each }, [{ each }]);
        for (const each of names) {
          expect(await store.load({ projectKey: each, sessionId: each })).toEqual([{ each }]);
          const listed = await store.listSessions(each);
          expect(listed.map(({ sessionId }) => sessionId)).toEqual([each]);
        }
      }),
    );

    test(
      'has no entries of a project that does not exist',
      withStore(async (store) => {
        expect(await store.listSessions('none')).toEqual([]);
        expect(await store.listSubkeys({ projectKey: 'none', sessionId: 'none' })).toEqual([]);
      }),
    );
  });
}
