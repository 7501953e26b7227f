import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { collect, keptLogger, playedSession } from '../../../test/support/fake-cli.ts';
import { verifies } from '../../../test/verifies.ts';
import { createSdkMcpServer, tool } from '../../mcp/registry/tool.ts';

const ANY = { type: 'object' } as const;
const server = (handler: () => unknown): ReturnType<typeof createSdkMcpServer> =>
  createSdkMcpServer({ name: 's', tools: [tool('run', 'runs', ANY, handler as () => string)] });

describe('a value without a JSON form', () => {
  const cycle: Record<string, unknown> = {};
  cycle['self'] = cycle;

  test.each([
    ['a BigInt', { content: [{ type: 'text', text: 'x', count: 1n }] }],
    ['a cycle', { content: [{ type: 'text', text: 'x', cycle }] }],
  ])('of a tool, %s, is answered with an error, and the next call runs', async (_, result) => {
    let returned: unknown = result;
    const { cli, session } = await playedSession({ mcpServers: { s: server(() => returned) } });
    await using __ = session;
    await session.send('go');
    await cli.initialize();
    expect(await cli.answerTo(cli.call('s', 'run'))).toMatchObject({
      subtype: 'error',
      error: expect.stringContaining('has no JSON form') as string,
    });
    returned = 'fine';
    expect(await cli.answerTo(cli.call('s', 'run'))).toMatchObject({ subtype: 'success' });
    expect(session.holding).toEqual(['a message without its result']);
  });

  test('in the options is rejected before a process is started', async () => {
    const { session } = await playedSession();
    await using _ = session;
    await expect(session.request('x', { count: 1n })).rejects.toMatchObject({ code: 'invalid' });
    const message = { type: 'user', message: { role: 'user', content: [cycle] } };
    await expect(session.send(message)).rejects.toMatchObject({ code: 'invalid' });
    expect(session.holding).toEqual(['initialize']);
  });
});

test('a call with a number as its id is answered under that number', async () => {
  const { cli, session } = await playedSession({ mcpServers: { s: server(() => 'fine') } });
  await using _ = session;
  await session.send('go');
  await cli.initialize();
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'run' } };
  const request = { subtype: 'mcp_message', server_name: 's', message };
  cli.say({ type: 'control_request', request_id: 12, request });
  const { response } = await cli.until('control_response');
  expect(response).toMatchObject({ request_id: 12, subtype: 'success' });
});

test('a request that cannot be answered is a warning', async () => {
  const { logger, lines } = keptLogger();
  const { cli, session } = await playedSession({ logger });
  await using _ = session;
  await cli.initialize();
  cli.say({ type: 'control_request', request: { subtype: 'x' } }, cli.assistant('next'));
  for await (const __ of session.messages()) break;
  expect(lines).toContainEqual(
    expect.objectContaining({ level: 'warn', message: 'control frame ignored' }),
  );
});

describe('messages', () => {
  verifies(
    ['S9', 'S26', 'S33', 'S40'],
    'writes initialize and the full user message, back to back',
    async () => {
      const { cli, session } = await playedSession();
      await using _ = session;
      await session.send('hello');
      expect(await cli.next()).toMatchObject({
        type: 'control_request',
        request: { subtype: 'initialize', systemPrompt: [''] },
      });
      const sent = await cli.next();
      expect(sent).toEqual({
        type: 'user',
        session_id: '',
        message: { role: 'user', content: [{ type: 'text', text: 'hello' }] },
        parent_tool_use_id: null,
        uuid: expect.any(String),
      });
      await session.send({ type: 'user', message: { role: 'user', content: 'short' } });
      expect(await cli.next()).toMatchObject({ session_id: '', parent_tool_use_id: null });
    },
  );

  verifies(
    ['S14', 'S15', 'S17', 'S23'],
    'the app sees messages and never a control frame',
    async () => {
      const { cli, session } = await playedSession({ mcpServers: { s: server(() => 'ok') } });
      await using _ = session;
      await session.send('go');
      await cli.initialize();
      const call = cli.call('s', 'run');
      cli.say(cli.assistant('one'), { type: 'user', message: { content: [] } });
      await cli.answerTo(call);
      cli.say({ type: 'keep_alive' }, cli.state('running'), cli.result());
      const seen = await collect(session.response());
      expect(seen.map(({ type }) => type)).toEqual(['assistant', 'user', 'result']);
    },
  );

  verifies(['S12', 'S27'], 'unknown kinds pass through untouched', async () => {
    const { cli, session } = await playedSession();
    await using _ = session;
    await session.send('go');
    const odd = { type: 'from_the_future', deep: { er: [1] } };
    cli.say(odd, { type: 'system', subtype: 'init', new: true }, cli.result());
    expect((await collect(session.response())).slice(0, 2)).toEqual([
      odd,
      { type: 'system', subtype: 'init', new: true },
    ]);
  });

  verifies(
    'S16',
    'messages come in order, however they are cut and mixed with control',
    async () => {
      const kinds = fc.array(fc.constantFrom('message', 'control', 'noise'), { maxLength: 40 });
      await fc.assert(
        fc.asyncProperty(kinds, async (all) => {
          const { cli, session } = await playedSession();
          await using _ = session;
          await session.send('go');
          for (const [n, kind] of all.entries()) {
            if (kind === 'message') cli.say({ type: 'stream_event', n });
            else if (kind === 'control') cli.request({ subtype: 'odd' });
            else cli.peer.write('not json\n');
          }
          cli.say(cli.result());
          const seen = await collect(session.response());
          const numbers = seen.flatMap(({ n }) => (n === undefined ? [] : [n]));
          expect(numbers).toEqual(
            [...all.entries()].filter(([, k]) => k === 'message').map(([n]) => n),
          );
          expect(seen.filter(({ subtype }) => subtype === 'noise')).toHaveLength(
            all.filter((kind) => kind === 'noise').length,
          );
        }),
        { numRuns: 30 },
      );
    },
  );

  test('invalid lines, null and a line that is too long are noise, and the session continues', async () => {
    const { cli, session } = await playedSession({ maxLineBytes: 1000 });
    await using _ = session;
    await session.send('go');
    cli.peer.write(`Welcome!\n[1,2]\nnull\n{"broken\n${'x'.repeat(2000)}\n`);
    cli.say(cli.assistant('fine'), cli.result());
    const seen = await collect(session.response());
    expect(seen.map(({ subtype, type }) => subtype ?? type)).toEqual([
      'noise',
      'noise',
      'noise',
      'noise',
      'noise',
      'assistant',
      'success',
    ]);
    expect(seen[2]).toMatchObject({ text: 'null', host: true });
  });

  verifies('S19', 'messages() continues after results, response() ends at one', async () => {
    const { cli, session } = await playedSession();
    await session.send('one');
    cli.say(cli.assistant('1'), cli.result(), cli.assistant('1b'));
    expect(await collect(session.response())).toHaveLength(2);
    await session.send('two');
    cli.say(cli.result());
    await cli.initialize();
    session.endInput();
    expect((await collect(session.messages())).map(({ type }) => type)).toEqual([
      'assistant',
      'result',
    ]);
  });

  test('a second loop at the same time is a conflict', async () => {
    const { session } = await playedSession();
    await using _ = session;
    void collect(session.messages()).catch(() => {});
    await expect(collect(session.frames())).rejects.toMatchObject({ code: 'conflict' });
  });

  test('reports a session id that differs from the requested one', async () => {
    const { lines, logger } = keptLogger();
    const { cli, session } = await playedSession({ resume: 'wanted', logger });
    await using _ = session;
    expect(session.id).toBe('wanted');
    await session.send('go');
    cli.say(cli.result());
    const seen = await collect(session.response());
    expect(session.id).toBe('fake');
    expect(seen[0]).toMatchObject({ subtype: 'session_id_mismatch', asked: 'wanted' });
    expect(lines).toContainEqual(expect.objectContaining({ level: 'warn' }));
  });
});

describe('turns', () => {
  test('the rest of an interrupted turn never ends the next one', async () => {
    const { cli, session } = await playedSession();
    await using _ = session;
    await session.send({ type: 'user', uuid: 'a', message: { role: 'user', content: 'a' } });
    cli.say(cli.assistant('of a'));
    const interrupting = session.interrupt();
    cli.answer((await cli.until('control_request', 'interrupt')).request_id, { still_queued: [] });
    await interrupting;
    await session.send({ type: 'user', uuid: 'b', message: { role: 'user', content: 'b' } });
    cli.say(
      cli.assistant('rest of a'),
      cli.result({ subtype: 'error_during_execution', is_error: true, user_message_uuids: ['a'] }),
      cli.assistant('of b'),
      cli.result({ user_message_uuids: ['b'], result: 'B' }),
    );
    const seen = await collect(session.response());
    expect(seen.map(({ type, result }) => [type, result])).toEqual([
      ['assistant', undefined],
      ['result', 'B'],
    ]);
  });

  test('breaking out of a response skips its turn', async () => {
    const { cli, session } = await playedSession();
    await using _ = session;
    await session.send('a');
    cli.say(cli.assistant('of a'), cli.assistant('more of a'));
    for await (const _message of session.response()) break;
    await session.send('b');
    cli.say(cli.result({ result: 'A' }), cli.assistant('of b'), cli.result({ result: 'B' }));
    const seen = await collect(session.response());
    expect(seen.map(({ type, result }) => result ?? type)).toEqual(['assistant', 'B']);
  });

  test('several messages have a response each, in order', async () => {
    const { cli, session } = await playedSession();
    await using _ = session;
    await session.send('a');
    await session.send('b');
    cli.say(cli.assistant('1'), cli.result({ result: 'A' }), cli.result({ result: 'B' }));
    expect((await collect(session.response())).at(-1)).toMatchObject({ result: 'A' });
    expect((await collect(session.response())).at(-1)).toMatchObject({ result: 'B' });
  });

  test('a message that was cancelled in the queue ends its response', async () => {
    const { cli, session } = await playedSession();
    await using _ = session;
    await session.send({ type: 'user', uuid: 'a', message: { role: 'user', content: 'a' } });
    cli.say({ type: 'command_lifecycle', command_uuid: 'a', state: 'cancelled' });
    expect(await collect(session.response())).toMatchObject([{ state: 'cancelled' }]);
  });

  test('messages merged by a CLI without uuids end together', async () => {
    const { cli, session } = await playedSession();
    await using _ = session;
    await session.send('a');
    await session.send('b');
    cli.say({ type: 'system', subtype: 'init' }, cli.result({ result: 'both' }), cli.state('idle'));
    await collect(session.response());
    expect(await collect(session.response())).toMatchObject([{ subtype: 'turns_merged', turn: 2 }]);
  });

  test('a message that an older CLI merged into a turn does not keep the session open', async () => {
    const { cli, session } = await playedSession({ exitMs: 30 });
    await session.send('a');
    await cli.initialize();
    cli.say({ type: 'system', subtype: 'init' });
    await session.send('b');
    await cli.until('user');
    cli.say(cli.result({ result: 'both' }));
    session.endInput();
    const seen = await collect(session.messages());
    expect(seen.map(({ subtype }) => subtype)).toEqual(['init', 'success', 'turns_merged']);
    expect(await session.done).toEqual({ code: 0 });
  });

  test('an interrupt that is not acknowledged ends the session with a timeout', async () => {
    const { session } = await playedSession({ interruptMs: 20 }, { stays: true });
    await session.send('go');
    await expect(session.interrupt()).rejects.toMatchObject({ code: 'closed' });
    await expect(session.done).rejects.toMatchObject({
      code: 'timeout',
      message: expect.stringContaining('acknowledge an interrupt within 20 ms') as string,
    });
  });

  test('an interrupt without effect ends the session with a timeout', async () => {
    const { cli, session } = await playedSession({ interruptMs: 20 }, { stays: true });
    await session.send('go');
    const interrupting = session.interrupt();
    cli.answer((await cli.until('control_request', 'interrupt')).request_id);
    await interrupting;
    await expect(collect(session.messages())).rejects.toMatchObject({
      code: 'timeout',
      message: expect.stringContaining('stop its turn after an interrupt within 20 ms') as string,
    });
  });
});
