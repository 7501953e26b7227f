import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { collect, FakeCli, keptLogger, playedSession } from '../../../test/support/fake-cli.ts';
import { createRegistry } from '../../mcp/registry/registry.ts';
import type { SourceChange, Tool, ToolSource } from '../../mcp/types.ts';
import { McpBridge } from '../callbacks/mcp-bridge.ts';
import type { Transport } from '../../process/types.ts';
import { InMemorySessionStore, openSession, query } from '../index.ts';
import { startup } from '../query/warm-query.ts';

const never = (): Promise<never> => new Promise(() => {});

describe('an abort while a session is set up', () => {
  test('ends the wait for a session store that does not respond, and starts no CLI', async () => {
    const abortController = new AbortController();
    const transport = vi.fn<() => Transport>(() => new FakeCli().transport);
    const store = Object.assign(new InMemorySessionStore(), { load: never });
    const run = query({
      prompt: 'go',
      options: {
        abortController,
        transport,
        sessionStore: store,
        resume: '00000000-0000-4000-8000-000000000000',
      },
    });
    const read = collect(run);
    setImmediate(() => abortController.abort());
    await expect(read).rejects.toMatchObject({ name: 'AbortError' });
    expect(transport).not.toHaveBeenCalled();
  });

  test('close does the same, and the loop ends without an error', async () => {
    const transport = vi.fn<() => Transport>(() => new FakeCli().transport);
    const store = Object.assign(new InMemorySessionStore(), { load: never });
    const resume = '00000000-0000-4000-8000-000000000000';
    const run = query({ prompt: 'go', options: { transport, sessionStore: store, resume } });
    const read = collect(run);
    setImmediate(() => run.close());
    expect(await read).toEqual([]);
    expect(transport).not.toHaveBeenCalled();
  });

  test('ends a warm CLI, also if no prompt ever comes', async () => {
    const cli = new FakeCli();
    const abortController = new AbortController();
    const starting = startup({ options: { abortController, transport: () => cli.transport } });
    await cli.initialize();
    const warm = await starting;
    abortController.abort();
    await cli.ended;
    await expect(collect(warm.query('too late'))).rejects.toMatchObject({ name: 'AbortError' });
  });
});

test('ready does not wait for a source that hangs when it is asked for its tools again', async () => {
  const { info } = createRegistry({ name: 'r', tools: [] });
  let lists = 0;
  const source: ToolSource = {
    info,
    async *listTools(): AsyncGenerator<Tool> {
      if (lists++ > 0) await never();
    },
    async *callTool() {},
  };
  const { cli, session } = await playedSession({ mcpServers: { r: source }, readyMs: 100 });
  await using _ = session;
  await cli.initialize({ sdk_mcp_manifests_parked: { r: 'parked' } });
  await expect(session.ready()).rejects.toMatchObject({ code: 'timeout' });
});

test('a request of the CLI with an id that the host uses does not release stdin', async () => {
  const { cli, session } = await playedSession({
    canUseTool: () => Promise.resolve({ behavior: 'allow' as const }),
  });
  await using _ = session;
  const { request_id } = await cli.until('control_request', 'initialize');
  // Under the same id: answered immediately, while the request of the host still waits.
  cli.request({ subtype: 'can_use_tool', tool_name: 'X', input: {} }, request_id);
  await cli.answerTo(request_id);
  session.endInput();
  expect(session.holding).toEqual(['initialize']);
  cli.answer(request_id);
  await cli.ended;
});

test('a session store that is still busy when the session ends is reported', async () => {
  const { lines, logger } = keptLogger();
  const sessionStore = Object.assign(new InMemorySessionStore(), { append: never });
  const { cli, session } = await playedSession({ sessionStore, logger });
  await cli.initialize();
  cli.say({
    type: 'transcript_mirror',
    filePath: '/config/projects/-folder/00000000-0000-4000-8000-000000000000.jsonl',
    entries: [{ type: 'user' }],
  });
  cli.peer.exit();
  await session[Symbol.asyncDispose]();
  expect(JSON.stringify(lines)).toContain('resources of the session were not released');
});

test('a source whose listen throws does not stop a session', async () => {
  const source: ToolSource = {
    info: createRegistry({ name: 'r', tools: [] }).info,
    async *listTools() {},
    async *callTool() {},
    listen: () => {
      throw new Error('no changes here');
    },
  };
  const { cli, session } = await playedSession({ mcpServers: { r: source } });
  await using _ = session;
  await cli.initialize({ sdk_mcp_manifests_parked: { r: 'parked' } });
  expect(await session.ready()).toEqual({ servers: [{ name: 'r', registered: 0, listed: 0 }] });
});

test('messages of a server that cannot be sent are reported', async () => {
  const failed = new Promise<unknown>((resolve) => {
    const bridge = new McpBridge({
      send: () => Promise.reject(new Error('no way out')),
      onFailure: (_, error) => resolve(error),
    });
    const changed = async function* (): AsyncGenerator<SourceChange> {
      yield { type: 'tools' };
    };
    bridge.add('r', {
      info: createRegistry({ name: 'r', tools: [] }).info,
      async *listTools() {},
      async *callTool() {},
      listen: changed,
    });
    bridge.manifests(1000).catch(resolve);
  });
  expect(await failed).toMatchObject({ message: 'no way out' });
});

test('a failed cleanup does not hide why a session could not start', async () => {
  const { lines, logger } = keptLogger();
  const cleanUp = vi
    .spyOn(McpBridge.prototype, 'remove')
    .mockRejectedValue(new Error('it is stuck'));
  onTestFinished(() => cleanUp.mockRestore());
  const transport = (): never => {
    throw new Error('the transport is not there');
  };
  const mcpServers = { r: createRegistry({ name: 'r', tools: [] }) };
  const opened = openSession({ mcpServers, transport, logger });
  await expect(opened).rejects.toThrow('the transport is not there');
  expect(JSON.stringify(lines)).toContain('it is stuck');
});

test('a message that did not reach the CLI is an error, also if the CLI keeps running', async () => {
  const cli = new FakeCli();
  const { transport } = cli;
  // The pipe takes it and breaks under it: the CLI has closed its stdin, and lives.
  const write: Transport['write'] = (text, onLost) => {
    if (!String(text).includes('"type":"user"')) return transport.write(text, onLost);
    setImmediate(() => onLost?.(new Error('EPIPE')));
    return true;
  };
  const proxy = new Proxy(transport, {
    get: (target, name) => (name === 'write' ? write : (Reflect.get(target, name) as unknown)),
  });
  const { logger } = keptLogger();
  const session = await openSession({ transport: () => proxy, exitMs: 20, stall: false, logger });
  await using _ = session;
  const messages = collect(session.messages());
  await cli.initialize();
  await session.send('go');
  session.endInput();
  await expect(messages).rejects.toMatchObject({
    code: 'closed',
    message: expect.stringContaining('did not reach the agent') as string,
  });
});
