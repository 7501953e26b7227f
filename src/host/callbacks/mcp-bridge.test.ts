import { getEventListeners } from 'node:events';
import { describe, expect, onTestFinished, test } from 'vitest';
import { collect, playedSession } from '../../../test/support/fake-cli.ts';
import { verifies } from '../../../test/verifies.ts';
import type { Answer, InputRequest } from '../../ask.ts';
import type { JsonObject } from '../../json.ts';
import { createRegistry } from '../../mcp/registry/registry.ts';
import { createSdkMcpServer, tool } from '../../mcp/registry/tool.ts';
import type { ToolSource } from '../../mcp/types.ts';
import type { ControlResponse } from '../../wire/control-peer.ts';
import { McpBridge } from './mcp-bridge.ts';

const ANY = { type: 'object' } as const;
const echo = tool('echo', 'echoes', ANY, (args: JsonObject) => JSON.stringify(args));

const rpc = (message: JsonObject, server_name = 's'): JsonObject => ({
  subtype: 'mcp_message',
  server_name,
  message: { jsonrpc: '2.0', ...message },
});

/** A source that lists slowly, so that no manifest is sent. */
const slow = (source: ToolSource, until: Promise<unknown>): ToolSource => ({
  info: source.info,
  async *listTools(options) {
    await until;
    yield* source.listTools(options);
  },
  callTool: (call, options) => source.callTool(call, options),
});

describe('the bridge, alone', () => {
  verifies('S6', 'routes by server and method, and answers notifications too', async () => {
    const sent: JsonObject[] = [];
    await using bridge = new McpBridge({ send: async (_, message) => void sent.push(message) });
    const registry = createRegistry({ name: 's', version: '1.0.0', tools: [echo] });
    bridge.add('s', registry);
    const ask = (message: JsonObject, server?: string): Promise<ControlResponse | undefined> =>
      bridge.serve({ ...rpc(message, server), subtype: 'mcp_message' }, {});
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {} };
    expect(await ask({ id: 0, method: 'initialize', params })).toMatchObject({
      ok: true,
      response: { mcp_response: { id: 0, result: { serverInfo: { name: 's' } } } },
    });
    expect(await ask({ method: 'notifications/initialized' })).toMatchObject({ ok: true });
    expect(bridge.waits).toBe(true);
    expect(await ask({ id: 1, method: 'tools/list' })).toMatchObject({
      response: { mcp_response: { result: { tools: [{ name: 'echo' }] } } },
    });
    expect(bridge.waits).toBe(false);
    const call = { id: 1, method: 'tools/call', params: { name: 'echo', arguments: { n: 1 } } };
    expect(await ask(call)).toMatchObject({
      response: { mcp_response: { id: 1, result: { content: [{ text: '{"n":1}' }] } } },
    });
    expect(await ask(call, 'ghost')).toMatchObject({ ok: false });
    registry.register({ ...echo, name: 'more' });
    await expect
      .poll(() => sent)
      .toEqual([{ jsonrpc: '2.0', method: 'notifications/tools/list_changed' }]);
  });

  test('serves twenty servers and several waiting callers without a listener warning', async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on('warning', onWarning);
    onTestFinished(() => void process.off('warning', onWarning));
    await using bridge = new McpBridge({ send: async () => {} });
    const names = Array.from({ length: 20 }, (_, n) => `s${n}`);
    for (const name of names)
      bridge.add(name, createRegistry({ name, version: '1', tools: [echo] }));
    expect(Object.keys(await bridge.manifests(10_000))).toEqual(names);
    const { signal } = new AbortController();
    const waiting = [bridge.ready(signal), bridge.ready(signal)];
    for (const name of names) {
      await new Promise((resolve) => setImmediate(resolve));
      const list = { ...rpc({ id: 1, method: 'tools/list' }, name), subtype: 'mcp_message' };
      await bridge.serve(list, {});
    }
    for (const ready of await Promise.all(waiting)) expect(ready).toHaveLength(20);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).toEqual([]);
  });
});

describe('a tool that asks a person, with a CLI that cannot ask', () => {
  const asking = tool('name', 'asks', ANY, async (_, { sendRequest }) => {
    const params = { message: 'Who?', requestedSchema: ANY };
    const { action, content } = await sendRequest({ method: 'elicitation/create', params });
    return `${String(action)} ${JSON.stringify(content)}`;
  });
  const s = createRegistry({ name: 's', version: '1', tools: [asking] });

  test('is answered by onElicitation', async () => {
    const asked: unknown[] = [];
    const { cli, session } = await playedSession({
      mcpServers: { s },
      onElicitation: (request) => {
        asked.push(request);
        return { action: 'accept', content: { name: 'Ada' } };
      },
    });
    await using _ = session;
    await cli.initialize();
    expect(await cli.answerTo(cli.call('s', 'name'))).toMatchObject({
      response: { mcp_response: { result: { content: [{ text: 'accept {"name":"Ada"}' }] } } },
    });
    expect(asked).toEqual([{ serverName: 's', message: 'Who?', requestedSchema: ANY }]);
  });

  test('fails without onElicitation', async () => {
    const { cli, session } = await playedSession({ mcpServers: { s } });
    await using _ = session;
    await cli.initialize();
    expect(JSON.stringify(await cli.answerTo(cli.call('s', 'name')))).toContain(
      'no one can be asked',
    );
  });
});

describe('the bridge', () => {
  verifies(
    ['S41', 'S43', 'S47', 'S48', 'S49', 'S72'],
    'declares servers by name, and serves the handshake',
    async () => {
      let declared = (): void => {};
      const until = new Promise<void>((resolve) => (declared = resolve));
      const { cli, session } = await playedSession({
        mcpServers: {
          s: slow(createRegistry({ name: 's', version: '1.0.0', tools: [echo] }), until),
          other: { command: 'node', args: ['x.js'] },
        },
      });
      await using _ = session;
      const { request } = await cli.initialize();
      declared();
      expect(request).toEqual({ subtype: 'initialize', systemPrompt: [''], sdkMcpServers: ['s'] });
      const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {} };
      const first = await cli.answerTo(cli.request(rpc({ id: 0, method: 'initialize', params })));
      expect(first).toMatchObject({
        response: {
          mcp_response: {
            jsonrpc: '2.0',
            id: 0,
            result: { serverInfo: { name: 's', version: '1.0.0' } },
          },
        },
      });
      const noted = cli.request(rpc({ method: 'notifications/initialized' }));
      expect(await cli.answerTo(noted)).toEqual({
        subtype: 'success',
        request_id: noted,
        response: { mcp_response: { jsonrpc: '2.0', result: {}, id: 0 } },
      });
      const ready = session.ready();
      cli.answer((await cli.until('control_request', 'mcp_status')).request_id, {
        mcpServers: [{ name: 's', status: 'pending' }],
      });
      const listed = await cli.answerTo(cli.request(rpc({ id: 1, method: 'tools/list' })));
      expect(listed).toMatchObject({
        response: { mcp_response: { id: 1, result: { tools: [{ name: 'echo' }] } } },
      });
      expect(await ready).toEqual({ servers: [{ name: 's', registered: 1, listed: 1 }] });
    },
  );

  test('sends a manifest for a quick server and trusts a CLI that accepted it', async () => {
    const registry = createRegistry({ name: 's', version: '1', tools: [echo] });
    const { cli, session } = await playedSession({
      mcpServers: { s: { type: 'sdk', name: 's', instance: registry, timeout: 1500 } },
    });
    await using _ = session;
    const { request } = await cli.initialize({ sdk_mcp_manifests_parked: { s: 'parked' } });
    expect(request).toMatchObject({
      sdkMcpServerConfigs: { s: { timeout: 1500 } },
      sdkMcpServerManifests: {
        s: {
          initializeResult: { protocolVersion: '2025-11-25', serverInfo: { name: 's' } },
          toolsListResult: { tools: [{ name: 'echo', inputSchema: ANY }] },
        },
      },
    });
    expect(await session.ready()).toEqual({ servers: [{ name: 's', registered: 1, listed: 1 }] });
  });

  verifies(
    ['S65', 'S68', 'S75'],
    'answers a call under its control id, whatever the JSON-RPC id is',
    async () => {
      const { cli, session } = await playedSession({
        mcpServers: { s: createSdkMcpServer({ name: 's', tools: [echo] }) },
      });
      await using _ = session;
      for (const id of [0, '', 'text', 2 ** 40]) {
        const answer = await cli.answerTo(cli.call('s', 'echo', { id }, id));
        expect(answer).toMatchObject({
          subtype: 'success',
          response: {
            mcp_response: { id, result: { content: [{ text: JSON.stringify({ id }) }] } },
          },
        });
      }
      const prefixed = await cli.answerTo(cli.call('s', 'mcp__s__echo', { a: 1 }));
      expect(prefixed).toMatchObject({ response: { mcp_response: { result: { content: [{}] } } } });
      expect(prefixed).not.toMatchObject({ response: { mcp_response: { error: {} } } });
    },
  );

  verifies('S70', 'rejects an unknown server and a missing message', async () => {
    const { cli, session } = await playedSession({
      mcpServers: { s: createSdkMcpServer({ name: 's', tools: [echo] }) },
    });
    await using _ = session;
    expect(await cli.answerTo(cli.call('missing', 'echo'))).toMatchObject({
      subtype: 'error',
      error: 'unknown in-process server "missing"; available: s',
    });
    const none = cli.request({ subtype: 'mcp_message', server_name: 's' });
    expect(await cli.answerTo(none)).toMatchObject({ subtype: 'error' });
  });

  verifies(
    'S93',
    'a cancel reaches the handler, either way, and nothing more is answered',
    async () => {
      const reasons: unknown[] = [];
      let begun = 0;
      const wait = tool('wait', 'waits', ANY, (_args: JsonObject, { signal }) => {
        begun += 1;
        return new Promise<string>((resolve) =>
          signal.addEventListener('abort', () => {
            reasons.push(signal.reason);
            resolve('too late');
          }),
        );
      });
      const { cli, session } = await playedSession({
        mcpServers: { s: createSdkMcpServer({ name: 's', tools: [wait] }) },
      });
      await using _ = session;
      cli.call('s', 'wait', {}, 5);
      await expect.poll(() => begun).toBe(1);
      const params = { requestId: 5, reason: 'interrupt' };
      const note = cli.request(rpc({ method: 'notifications/cancelled', params }));
      expect(await cli.answerTo(note)).toMatchObject({ subtype: 'success' });
      const second = cli.call('s', 'wait', {}, 6);
      await expect.poll(() => begun).toBe(2);
      cli.say({ type: 'control_cancel_request', request_id: second });
      await expect.poll(() => reasons.length).toBe(2);
      await expect.poll(() => session.holding).toEqual(['initialize']);
      const next = cli.request({ subtype: 'odd' });
      const frame = await cli.until('control_response');
      expect(frame.response.request_id).toBe(next); // neither call was answered
    },
  );

  test('list_changed and progress travel as messages of the host', async () => {
    const registry = createRegistry({ name: 's', version: '1', tools: [] });
    registry.register(
      tool('steps', 'reports', ANY, async (_args: JsonObject, ctx) => {
        await ctx.progress(1, 2, 'half');
        return 'done';
      }),
    );
    const { cli, session } = await playedSession({ mcpServers: { s: registry } });
    await using _ = session;
    const params = { name: 'steps', arguments: {}, _meta: { progressToken: 9 } };
    const call = cli.request(rpc({ id: 1, method: 'tools/call', params }));
    const told = await cli.until('control_request', 'mcp_message');
    expect(told.request).toMatchObject({
      server_name: 's',
      message: {
        method: 'notifications/progress',
        params: { progressToken: 9, progress: 1, total: 2 },
      },
    });
    expect(await cli.answerTo(call)).toMatchObject({ subtype: 'success' });
    registry.register(echo);
    const changed = await cli.until('control_request', 'mcp_message');
    expect(changed.request).toMatchObject({
      message: { method: 'notifications/tools/list_changed' },
    });
  });

  verifies(
    'S87',
    'an input of a tool goes to ask, and the call stays open until it is answered',
    async () => {
      const asked: InputRequest[] = [];
      let answer = (_answer: Answer): void => {};
      const review = tool('review', 'asks', ANY, async (_args: JsonObject, { ask }) => {
        const { action } = await ask({ id: 'ok', kind: 'approval', message: 'Fine?' });
        return `person said ${action}`;
      });
      const { cli, session } = await playedSession({
        mcpServers: { s: createSdkMcpServer({ name: 's', tools: [review] }) },
        ask: (request) => {
          asked.push(request);
          return new Promise((resolve) => (answer = resolve));
        },
      });
      await using _ = session;
      await cli.initialize();
      const call = cli.call('s', 'review');
      await expect.poll(() => asked.length).toBe(1);
      expect(session.holding).toEqual(['tools/call review on s']);
      answer({ id: asked[0]?.id ?? '', action: 'accept' });
      expect(await cli.answerTo(call)).toMatchObject({
        response: { mcp_response: { result: { content: [{ text: 'person said accept' }] } } },
      });
    },
  );
});

describe('ready', () => {
  test('rejects when the CLI reports that a server failed', async () => {
    const { cli, session } = await playedSession({
      mcpServers: { s: createSdkMcpServer({ name: 's', tools: [echo] }) },
    });
    await using _ = session;
    await cli.initialize();
    const ready = session.ready();
    cli.answer((await cli.until('control_request', 'mcp_status')).request_id, {
      mcpServers: [{ name: 's', status: 'failed' }],
    });
    await expect(ready).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('s did not list its tools (failed)') as string,
    });
  });

  test('rejects with the name of a server that is never listed, and reports a turn without it', async () => {
    const { cli, session } = await playedSession({
      readyMs: 100,
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      mcpServers: { s: createSdkMcpServer({ name: 's', tools: [echo] }) },
    });
    await using _ = session;
    await cli.initialize();
    await expect(session.ready()).rejects.toMatchObject({
      code: 'timeout',
      message: expect.stringContaining('s did not list its tools (not asked yet') as string,
    });
    await session.send('go');
    cli.say({ type: 'system', subtype: 'init', mcp_servers: [{ name: 'x', status: 'connected' }] });
    cli.say(cli.result());
    const seen = await collect(session.response());
    expect(seen).toContainEqual(
      expect.objectContaining({ subtype: 'mcp_server_not_listed', server: 's', status: 'absent' }),
    );
  });

  test('counts a tool that was left out: registered 2, listed 1', async () => {
    const bad = { ...echo, name: 'bad', inputSchema: { type: 'array' } };
    const instance = createRegistry({ name: 's', version: '1', tools: [echo, bad] });
    const { cli, session } = await playedSession({ mcpServers: { s: instance } });
    await using _ = session;
    await cli.initialize({ sdk_mcp_manifests_parked: { s: 'parked' } });
    await expect(session.ready()).rejects.toMatchObject({
      message: expect.stringMatching(
        /s: registered 2, listed 1 \(.*tool "bad": its input schema is not usable/,
      ) as string,
    });
  });
});
