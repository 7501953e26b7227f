import { describe, expect, test } from 'vitest';
import { DuolaneError } from '../../errors.ts';
import { ChangeFeed } from './change-feed.ts';
import { gateway } from './gateway.ts';
import { offerMessages } from '../json-rpc/server/offer-messages.ts';
import { sourcePool } from './source-pool.ts';
import { createRegistry } from '../registry/registry.ts';
import { tool } from '../registry/tool.ts';
import type { ToolEvent, ToolSource } from '../types.ts';
import { call, toArray } from '../../../test/contracts/tool-source.contract.ts';
import { verifies } from '../../../test/verifies.ts';

const say = (name: string): ReturnType<typeof tool> => tool('say', name, {}, () => name);
const registry = (name: string): ReturnType<typeof createRegistry> =>
  createRegistry({ name, tools: [say(name), tool(`only-${name}`, '', {}, () => name)] });

/** A server that can be dialled, lost and dialled again. */
function flaky(name: string): {
  connect: () => Promise<ToolSource & AsyncDisposable>;
  lose(): void;
  up: boolean;
  dials: number;
  open: number;
} {
  let changes = new ChangeFeed();
  const self = {
    up: true,
    dials: 0,
    open: 0,
    lose: () => changes.fail(new DuolaneError('network', 'the cable is out')),
    async connect() {
      self.dials += 1;
      if (!self.up) throw new DuolaneError('network', 'connection refused');
      changes = new ChangeFeed();
      const own = changes;
      const inner = registry(name);
      self.open += 1;
      return {
        info: inner.info,
        listTools: inner.listTools.bind(inner),
        callTool: inner.callTool.bind(inner),
        listen: own.listen.bind(own),
        async [Symbol.asyncDispose]() {
          self.open -= 1;
        },
      };
    },
  };
  return self;
}

const names = async (source: ToolSource): Promise<string[]> =>
  (await toArray(source.listTools())).map(({ name }) => name);

const textOf = (events: readonly ToolEvent[]): unknown => {
  const last = events.at(-1);
  return last?.type === 'result' ? last.result.content[0]?.['text'] : last;
};

async function* toolless(): AsyncGenerator<ToolEvent, void, undefined> {}

describe('a gateway', () => {
  test('a source whose dial never completes delays neither the lists nor the end', async () => {
    let dialled: (source: ToolSource & AsyncDisposable) => void = () => {};
    let closed = 0;
    const late = new Promise<ToolSource & AsyncDisposable>((resolve) => (dialled = resolve));
    const many = gateway({ silent: () => late, good: registry('good') }, { dialMs: 5 });
    const changes = many.listen!()[Symbol.asyncIterator]();
    await changes.next();
    expect(await names(many)).toEqual(['good__say', 'good__only-good']);
    expect(many.problems.get('silent')).toMatchObject({ code: 'timeout' });
    await expect(toArray(many.readResource!('a:'))).rejects.toMatchObject({ code: 'not_found' });
    const inner = registry('late');
    dialled({
      info: inner.info,
      listTools: inner.listTools.bind(inner),
      callTool: inner.callTool.bind(inner),
      async [Symbol.asyncDispose]() {
        closed += 1;
      },
    });
    await changes.next(); // it is there now, which is a change
    expect(await names(many)).toContain('silent__only-late');
    expect(many.problems.size).toBe(0);
    await many[Symbol.asyncDispose]();
    expect(closed).toBe(1);
  });

  test('disposing does not wait for a dial that ignores its signal, which is closed later', async () => {
    let dialled: (source: ToolSource & AsyncDisposable) => void = () => {};
    const late = new Promise<ToolSource & AsyncDisposable>((resolve) => (dialled = resolve));
    const many = gateway({ silent: () => late });
    await many[Symbol.asyncDispose]();
    await new Promise<void>((resolve) => {
      const { info } = registry('late');
      const rest = { listTools: () => registry('late').listTools(), callTool: () => toolless() };
      dialled({ info, ...rest, [Symbol.asyncDispose]: async () => resolve() });
    });
    expect(many.problems.size).toBeLessThanOrEqual(1);
  });

  test('prefixes each tool with the name of its source, and calls the right one', async () => {
    await using many = gateway({ a: registry('a'), b: registry('b') });
    expect(await names(many)).toEqual(['a__say', 'a__only-a', 'b__say', 'b__only-b']);
    expect(textOf(await toArray(many.callTool(call('a__say'))))).toBe('a');
    expect(textOf(await toArray(many.callTool(call('b__say'))))).toBe('b');
    for (const unknown of ['say', 'c__say', '__say'])
      await expect(toArray(many.callTool(call(unknown)))).rejects.toMatchObject({
        code: 'not_found',
      });
  });

  test('refuses ambiguous names', () => {
    for (const name of ['a__b', 'a_', '', 'a b'])
      expect(() => gateway({ [name]: registry('a') })).toThrow(/invalid source name/);
  });

  test('continues after any checkpoint, also across two sources', async () => {
    await using many = gateway({ a: registry('a'), b: registry('b') });
    const all = await names(many);
    for (let taken = 1; taken <= all.length; taken += 1) {
      const list = many.listTools();
      let left = taken;
      for await (const one of list) if ((left -= 1) === 0 && one) break;
      const rest = await toArray(many.listTools({ after: list.checkpoint! }));
      expect(rest.map(({ name }) => name)).toEqual(all.slice(taken));
    }
  });

  test('keeps the others when one cannot be reached, and reports when it is back', async () => {
    const server = flaky('b');
    server.up = false;
    await using many = gateway({ a: registry('a'), b: server.connect });
    expect(await names(many)).toEqual(['a__say', 'a__only-a']);
    expect([...many.problems.keys()]).toEqual(['b']);
    await expect(toArray(many.callTool(call('b__say')))).rejects.toMatchObject({
      code: 'network',
      message: 'tool server "b" is not connected: connection refused',
    });
    const changes = many.listen!()[Symbol.asyncIterator]();
    await changes.next();
    server.up = true;
    expect((await changes.next()).value).toEqual({ type: 'tools' });
    expect(await names(many)).toHaveLength(4);
    expect(many.problems.size).toBe(0);
    await changes.return?.();
  });

  test('dials again after a lost connection, and closes what it dialled', async () => {
    const server = flaky('b');
    await using many = gateway({ a: registry('a'), b: server.connect });
    expect(await names(many)).toHaveLength(4);
    const changes = many.listen!()[Symbol.asyncIterator]();
    await changes.next();
    server.lose();
    expect((await changes.next()).value).toEqual({ type: 'tools' });
    expect(await names(many)).toHaveLength(4);
    expect([server.dials, server.open]).toEqual([2, 1]);
    await changes.return?.();
    await many[Symbol.asyncDispose]();
    expect(server.open).toBe(0);
  });

  test('is a source like any other: it can be offered', async () => {
    await using many = gateway({ a: registry('a') });
    await using end = offerMessages(many);
    const request = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'a__say' } };
    expect(await end.receive(request)).toMatchObject({
      result: { content: [{ type: 'text', text: 'a' }] },
    });
  });
});

describe('a pool', () => {
  verifies('S234', 'dials each server once, ahead of time, for all users', async () => {
    const server = flaky('a');
    await using pool = sourcePool({ a: server.connect });
    expect(await pool.warm()).toEqual(new Map());
    expect(server.dials).toBe(1);
    const leases = await Promise.all([pool.lease('a'), pool.lease('a'), pool.lease('a')]);
    for (const { source } of leases) expect(await names(source)).toHaveLength(2);
    for (const lease of leases) await lease[Symbol.asyncDispose]();
    await using again = await pool.lease('a');
    expect(again.source).toBe(leases[0]?.source);
    expect(server.dials).toBe(1);
  });

  test('closes unused connections after a while, and never one in use', async () => {
    const server = flaky('a');
    await using pool = sourcePool({ a: server.connect }, { idleMs: 5 });
    const lease = await pool.lease('a');
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(server.open).toBe(1);
    await lease[Symbol.asyncDispose]();
    await expect.poll(() => server.open).toBe(0);
    await using again = await pool.lease('a');
    expect([again.source.info.name, server.dials]).toEqual(['a', 2]);
  });

  test('dials again after a connection broke or could not be made', async () => {
    const server = flaky('a');
    server.up = false;
    await using pool = sourcePool({ a: server.connect });
    expect((await pool.warm()).get('a')?.code).toBe('network');
    await expect(pool.lease('a')).rejects.toMatchObject({ code: 'network' });
    server.up = true;
    const first = await pool.lease('a');
    server.lose();
    await expect.poll(() => server.open).toBe(0);
    await using second = await pool.lease('a');
    expect(second.source).not.toBe(first.source);
    await expect(pool.lease('b')).rejects.toMatchObject({ code: 'not_found' });
  });
});
