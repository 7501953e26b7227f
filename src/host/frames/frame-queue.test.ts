import { describe, expect, test, vi } from 'vitest';
import { collect, keptLogger, playedSession } from '../../../test/support/fake-cli.ts';
import { verifies } from '../../../test/verifies.ts';
import type { Frame } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { createSdkMcpServer, tool } from '../../mcp/registry/tool.ts';

const ANY = { type: 'object' } as const;
const server = (handler: () => unknown): ReturnType<typeof createSdkMcpServer> =>
  createSdkMcpServer({ name: 's', tools: [tool('run', 'runs', ANY, handler as () => string)] });

describe('the two lanes', () => {
  verifies(['S20', 'S22'], 'an empty loop over the response is a complete program', async () => {
    let called = 0;
    const { cli, session } = await playedSession({
      mcpServers: { s: server(() => `${++called}`) },
    });
    await using _ = session;
    void session.send('go');
    await cli.initialize();
    const call = cli.call('s', 'run');
    void cli.answerTo(call).then(() => cli.say(cli.result()));
    for await (const _message of session.response()) {
      // nothing: the tools run in the background
    }
    expect(called).toBe(1);
  });

  verifies('S21', 'a turn completes without a reader', async () => {
    const { cli, session } = await playedSession({ mcpServers: { s: server(() => 'ok') } });
    await session.send('go');
    session.endInput();
    await cli.initialize();
    const answer = await cli.answerTo(cli.call('s', 'run'));
    expect(answer).toMatchObject({ response: { mcp_response: { result: {} } } });
    cli.say(cli.result());
    expect(await session.done).toEqual({ code: 0 });
  });

  verifies('S24', 'a slow reader never delays a tool call, and memory is bounded', async () => {
    const options = { mcpServers: { s: server(() => 'ok') }, memoryBytes: 64 * 1024 };
    const { cli, session } = await playedSession(options);
    await using _ = session;
    await session.send('go');
    await cli.initialize();
    const text = 'x'.repeat(1000);
    for (let n = 0; n < 1000; n++) cli.say({ type: 'stream_event', n, text });
    expect(await cli.answerTo(cli.call('s', 'run'))).toMatchObject({ subtype: 'success' });
    cli.say(cli.result());
    const seen = await collect(session.response());
    expect(seen.slice(0, 1000).map(({ n }) => n)).toEqual([...Array(1000).keys()]);
  });

  test('messages for a slow reader only are parsed when they are read, and keep their order', async () => {
    const { cli, session } = await playedSession({
      mcpServers: { s: server(() => 'ok') },
      memoryBytes: 1,
    });
    await using _ = session;
    await session.send('go');
    await cli.initialize();
    cli.say({ type: 'system', subtype: 'status', session_id: 'one' });
    cli.say({ type: 'system', subtype: 'status', session_id: 'one' }); // now it is on disk
    const parse = vi.spyOn(JSON, 'parse');
    cli.peer.write('{"type":"assistant","n":0}\n'.repeat(100));
    cli.peer.write('{"type":"stream_event","broken":}\n{"type":"assi');
    cli.peer.write('stant","é":"€"}\n');
    cli.say({
      type: 'assistant',
      message: { content: [{ type: 'tool_use', id: 't', name: 'x' }] },
    });
    cli.peer.write('{"type":"user","n":2}\n');
    expect(await cli.answerTo(cli.call('s', 'run'))).toMatchObject({ subtype: 'success' });
    const parsed = parse.mock.calls.map(([line]) => line);
    parse.mockRestore();
    expect(parsed.filter((line) => /"n":|broken|€/.test(line))).toEqual([]);
    expect(session.calls.map(({ id }) => id)).toEqual(['t']);
    cli.say(cli.result());
    const [, , ...seen] = await collect(session.response());
    expect(seen.slice(0, 100).every(({ n }) => n === 0)).toBe(true);
    expect(seen.slice(100)).toMatchObject([
      {
        type: 'system',
        subtype: 'noise',
        session_id: 'one',
        text: expect.stringContaining('broken'),
      },
      { type: 'assistant', é: '€' },
      { type: 'assistant', message: {} },
      { type: 'user', n: 2 },
      { type: 'result' },
    ]);
  });

  test('skimmed frames have the time of their arrival', async () => {
    const { cli, session } = await playedSession({ memoryBytes: 1 });
    await using _ = session;
    await session.send('go');
    await cli.initialize();
    const before = Date.now();
    for (let n = 0; n < 3; n++) cli.say({ type: 'assistant', session_id: 'one', n });
    cli.say(cli.result());
    const frames: Frame[] = [];
    for await (const frame of session.frames()) {
      frames.push(frame);
      if (frame.data['type'] === 'result') break;
    }
    expect(frames.map(({ data }) => data['n'])).toEqual([0, 1, 2, undefined]);
    for (const { at } of frames) expect(at).toBeGreaterThanOrEqual(before);
    for (const { at } of frames) expect(at).toBeLessThanOrEqual(Date.now());
  });

  verifies(['S118', 'S119'], 'a tap gets frames of both lanes and directions', async () => {
    const frames: Frame[] = [];
    const { cli, session } = await playedSession({
      mcpServers: { s: server(() => 'ok') },
      onFrame: (frame) => frames.push(frame),
    });
    await using _ = session;
    await session.send('go');
    await cli.initialize();
    await cli.answerTo(cli.call('s', 'run'));
    cli.say(cli.result());
    await collect(session.response());
    expect(
      frames.map(({ lane, direction, data }) => `${lane} ${direction} ${String(data['type'])}`),
    ).toEqual([
      'control out control_request',
      'message out user',
      'control in control_response',
      'control in control_request',
      'control out control_response',
      'message in result',
    ]);
    expect(frames.every(({ at }) => Math.abs(at - Date.now()) < 60_000)).toBe(true);
  });

  test('frames() yields both lanes in order with lanes: both, and drops a tap that throws', async () => {
    const { lines, logger } = keptLogger();
    const { cli, session } = await playedSession({
      lanes: 'both',
      logger,
      memoryBytes: 1, // everything goes over the disk
      onFrame: () => {
        throw new Error('tap');
      },
    });
    await session.send('go');
    await cli.initialize();
    cli.say(cli.result());
    session.endInput();
    const frames = await collect(session.frames());
    expect(frames.map(({ lane, direction }) => `${lane} ${direction}`)).toEqual([
      'control out',
      'message out',
      'control in',
      'message in',
    ]);
    expect(lines.filter(({ level }) => level === 'error')).toHaveLength(1);
  });
});

describe('stdin', () => {
  verifies(
    ['S35', 'S89', 'S90', 'S91'],
    'runs any number of parallel calls, each answered under its own id',
    async () => {
      const release: (() => void)[] = [];
      const handler = (): Promise<string> =>
        new Promise((resolve) => release.push(() => resolve(`n${release.length}`)));
      const { cli, session } = await playedSession({ mcpServers: { s: server(handler) } });
      await using _ = session;
      await session.send('go');
      await cli.initialize();
      const ids = Array.from({ length: 32 }, () => cli.call('s', 'run', {}, 7)); // all with one JSON-RPC id
      await expect.poll(() => release.length).toBe(32);
      expect(session.holding.filter((word) => word.startsWith('tools/call run'))).toHaveLength(32);
      const order: string[] = [];
      for (const at of [31, 0, 15]) {
        release[at]?.();
        order.push(String((await cli.until('control_response')).response.request_id));
      }
      expect(order).toEqual([ids[31], ids[0], ids[15]]);
      for (const each of release) each();
      const rest = new Set<string>();
      while (rest.size < 29) rest.add((await cli.until('control_response')).response.request_id);
      expect(rest.size).toBe(29);
    },
  );

  verifies(
    ['S98', 'S103'],
    'stays open while a tool runs after the input has ended, and closes when idle',
    async () => {
      let finish = (): void => {};
      const handler = (): Promise<string> =>
        new Promise((resolve) => (finish = () => resolve('late')));
      const { cli, session } = await playedSession({ mcpServers: { s: server(handler) } });
      await session.send('go');
      session.endInput();
      await cli.initialize();
      const call = cli.call('s', 'run');
      await expect.poll(() => session.holding).toContain('tools/call run on s');
      cli.say(cli.result(), cli.state('idle'));
      await expect.poll(() => session.holding).toEqual(['tools/call run on s']);
      expect(cli.inputEnded).toBe(false);
      finish();
      expect(await cli.answerTo(call)).toMatchObject({ subtype: 'success' });
      await session.done;
      expect(cli.inputEnded).toBe(true);
    },
  );

  verifies(
    'S39',
    'handles control frames before the response to initialize and after the result',
    async () => {
      const { cli, session } = await playedSession({ mcpServers: { s: server(() => 'ok') } });
      await using _ = session;
      await session.send('go');
      const init = await cli.until('control_request', 'initialize');
      expect(await cli.answerTo(cli.call('s', 'run'))).toMatchObject({ subtype: 'success' });
      cli.answer(init.request_id);
      cli.say(cli.result());
      await collect(session.response());
      expect(await cli.answerTo(cli.call('s', 'run'))).toMatchObject({ subtype: 'success' });
    },
  );

  verifies('S37', 'answers an unknown subtype with an error and its code', async () => {
    const { cli, session } = await playedSession();
    await using _ = session;
    expect(await cli.answerTo(cli.request({ subtype: 'nonsense' }))).toEqual({
      subtype: 'error',
      request_id: 'cli_1',
      error: 'Unsupported control request subtype: nonsense',
      error_code: 'unsupported_request',
    });
  });

  verifies('S31', 'any request can be sent to the CLI, and an abort withdraws it', async () => {
    const { cli, session } = await playedSession();
    await using _ = session;
    const asked = session.request('get_settings', { x: 1 });
    const frame = await cli.until('control_request', 'get_settings');
    expect(frame.request).toEqual({ subtype: 'get_settings', x: 1 });
    cli.answer(frame.request_id, { effective: {} });
    expect(await asked).toEqual({ effective: {} });
    const controller = new AbortController();
    const slow = session.request('slow', {}, { signal: controller.signal });
    controller.abort();
    await expect(slow).rejects.toMatchObject({ code: 'canceled' });
    expect(await cli.until('control_cancel_request')).toMatchObject({
      type: 'control_cancel_request',
    });
  });

  verifies(
    ['S95', 'S100'],
    'oneshot closes stdin immediately, and is rejected where a response may be needed',
    async () => {
      const { cli, session } = await playedSession({ oneshot: true }, { stays: true });
      await session.send('go');
      session.endInput();
      await cli.ended;
      cli.say(cli.result());
      cli.peer.exit();
      await session.done;
      await expect(
        playedSession({ oneshot: true, mcpServers: { s: server(() => 'x') } }),
      ).rejects.toMatchObject({
        code: 'invalid',
        message: expect.stringContaining('remove oneshot') as string,
      });
    },
  );

  test('a message after the end of input is rejected', async () => {
    const { cli, session } = await playedSession();
    await using _ = session;
    session.endInput();
    await expect(session.send('late')).rejects.toMatchObject({ code: 'closed' });
    await cli.initialize();
    await session.done;
  });

  test('pending permission requests beside the response to initialize are handled', async () => {
    const asked: string[] = [];
    const { cli, session } = await playedSession({
      canUseTool: async (name) => {
        asked.push(name);
        return { behavior: 'allow' };
      },
    });
    await using _ = session;
    const { request_id } = await cli.until('control_request', 'initialize');
    const request: JsonObject = { subtype: 'can_use_tool', tool_name: 'Bash', input: {} };
    cli.say({
      type: 'control_response',
      response: {
        subtype: 'success',
        request_id,
        pending_permission_requests: [{ type: 'control_request', request_id: 'p1', request }],
      },
    });
    expect(await cli.answerTo('p1')).toMatchObject({ response: { behavior: 'allow' } });
    expect(asked).toEqual(['Bash']);
  });
});
