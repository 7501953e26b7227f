import { expect, test } from 'vitest';
import {
  createSdkMcpServer,
  openSession,
  query,
  type Session,
  tool,
} from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { collect, keptLogger } from '../support/fake-cli.ts';
import type { ModelReply } from '../support/model-server.ts';
import { ANY, call, eachRealCli, results } from './host-fixture.ts';

await eachRealCli('ends', (placed) => {
  test('closing during a call aborts the handler and exits without an error', async () => {
    let aborted = false;
    let begin = (): void => {};
    const begun = new Promise<void>((resolve) => (begin = resolve));
    await using place = await placed([call('mcp__calc__run'), { text: 'never' }], {
      mcpServers: {
        calc: createSdkMcpServer({
          name: 'calc',
          tools: [
            tool('run', 'Runs', ANY, (_args: JsonObject, { signal }) => {
              begin();
              return new Promise<string>((resolve) =>
                signal.addEventListener('abort', () => {
                  aborted = true;
                  resolve('late');
                }),
              );
            }),
          ],
        }),
      },
      allowedTools: ['mcp__calc__*'],
    });
    const session: Session = await openSession(place.options);
    await session.send('go');
    await begun;
    await session[Symbol.asyncDispose]();
    expect(aborted).toBe(true);
    await session.done;
    expect(place.calls).toHaveLength(1); // the model was not called again
  });

  test('a CLI that is killed is a typed error', async () => {
    const pids: number[] = [];
    await using place = await placed([{ text: 'never', fail: { after: 1, how: 'hang' } }], {
      includePartialMessages: true,
    });
    const { spawnProcess } = await import('../../src/process/index.ts');
    const session = await openSession({
      ...place.options,
      transport: (launch) => {
        const child = spawnProcess(launch);
        pids.push(child.pid ?? 0);
        return child;
      },
    });
    await session.send('go');
    await expect(
      (async () => {
        for await (const { type } of session.messages())
          if (type === 'stream_event') process.kill(pids[0] as number, 'SIGKILL');
      })(),
    ).rejects.toMatchObject({ code: 'peer_exited', cause: { signal: 'SIGKILL' } });
    await session[Symbol.asyncDispose]();
  });

  test('resume continues the session, and a fork gets a new id', async () => {
    await using place = await placed([{ text: 'one' }, { text: 'two' }, { text: 'three' }]);
    const first = query({ prompt: 'remember 42', options: place.options });
    await collect(first);
    const { id } = await first.session;
    const second = query({ prompt: 'again', options: { ...place.options, resume: id } });
    await collect(second);
    expect((await second.session).id).toBe(id);
    expect(JSON.stringify(place.calls[1]?.body['messages'])).toContain('remember 42');
    const fork = query({
      prompt: 'fork',
      options: { ...place.options, resume: id, forkSession: true },
    });
    await collect(fork);
    expect((await fork.session).id).not.toBe(id);
  });

  for (const status of [429, 500, 529]) {
    test(`the model fails with ${status}, then succeeds`, async () => {
      await using place = await placed([{ status, message: 'boom' }, { text: 'after all' }]);
      const seen = await collect(query({ prompt: 'go', options: place.options }));
      expect(seen.some((each) => each.type === 'system' && each.subtype === 'api_retry')).toBe(
        true,
      );
      expect(results(seen)).toMatchObject([{ result: 'after all' }]);
    });
  }

  test('the model fails permanently: an error result, which only query throws', async () => {
    const { lines, logger } = keptLogger();
    const script = (): ModelReply => ({ status: 500, message: 'boom' });
    await using place = await placed(script, { logger }, { CLAUDE_CODE_MAX_RETRIES: '1' });
    const seen: JsonObject[] = [];
    await expect(
      (async () => {
        for await (const message of query({ prompt: 'go', options: place.options }))
          seen.push(message);
      })(),
    ).rejects.toThrow(/error result.*500/);
    expect(results(seen)).toMatchObject([{ is_error: true }]);
    await using session = await openSession(place.options);
    await session.send('go');
    session.endInput();
    expect(results(await collect(session.messages()))).toMatchObject([{ is_error: true }]);
    expect(await session.done).toEqual({ code: 1 });
    expect(lines.filter(({ level }) => level === 'warn')).toEqual([]);
  });
});
