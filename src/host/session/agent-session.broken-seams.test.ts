import { describe, expect, test, vi } from 'vitest';
import { collect, FakeCli, playedSession } from '../../../test/support/fake-cli.ts';
import type { Exit, Transport } from '../../process/types.ts';
import { openSession } from '../index.ts';
import type { Session, SessionOptions } from '../index.ts';

/** A session over a transport of which one member misbehaves. */
async function broken(
  members: (transport: Transport) => Partial<Transport>,
  options: SessionOptions = {},
): Promise<{ readonly cli: FakeCli; readonly session: Session }> {
  const cli = new FakeCli();
  const { transport } = cli;
  const own = members(transport);
  const proxy = new Proxy(transport, {
    get: (target, name) => Reflect.get(name in own ? own : target, name) as unknown,
  });
  return { cli, session: await openSession({ transport: () => proxy, ...options }) };
}

const boom = (): never => {
  throw new Error('the wire burned down');
};

describe('a transport that breaks its contract', () => {
  test('output that throws ends the messages and done with the reason', async () => {
    const { cli, session } = await broken(({ output }) => ({
      output: (async function* () {
        for await (const chunk of output) {
          yield chunk;
          boom();
        }
      })(),
    }));
    await using _ = session;
    const messages = collect(session.messages());
    await cli.initialize();
    await expect(messages).rejects.toThrow('the wire burned down');
    await expect(session.done).rejects.toThrow('the wire burned down');
    await expect(session.send('x')).rejects.toMatchObject({ code: 'closed' });
  });

  test('an exit that rejects ends the messages and done', async () => {
    const exited = Promise.reject<Exit>(new Error('the wire burned down'));
    exited.catch(() => {});
    const { cli, session } = await broken(() => ({ exited }));
    await using _ = session;
    const messages = collect(session.messages());
    cli.peer.exit();
    await expect(messages).rejects.toThrow('the wire burned down');
  });

  test('an end of input that throws ends the messages and done', async () => {
    const { cli, session } = await broken(() => ({ endInput: boom }));
    const messages = collect(session.messages());
    await session.send('go');
    await cli.initialize();
    session.endInput();
    cli.say(cli.result());
    cli.peer.exit();
    expect((await messages).map(({ type }) => type)).toEqual(['result']);
    await session[Symbol.asyncDispose]();
  });

  test('a dispose that rejects is reported to the caller and leaves no reader waiting', async () => {
    const { session } = await broken(() => ({
      [Symbol.asyncDispose]: () => Promise.reject(new Error('the wire burned down')),
    }));
    const messages = collect(session.messages());
    messages.catch(() => {});
    await expect(session[Symbol.asyncDispose]()).rejects.toThrow('the wire burned down');
    await expect(messages).rejects.toThrow('the wire burned down');
  });
});

test('a logger that throws is reported once, and the session goes on without it', async () => {
  const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const logger = { debug: boom, info: boom, warn: boom, error: boom };
  const { cli, session } = await playedSession({
    logger,
    sessionId: '00000000-0000-4000-8000-000000000000',
    onFrame: boom,
  });
  await using _ = session;
  await session.send('go');
  await cli.initialize();
  cli.say(cli.assistant('hello'), cli.result());
  session.endInput();
  const seen = await collect(session.messages());
  expect(seen.map(({ type }) => type)).toContain('result');
  expect(warnings.mock.calls.filter(([text]) => String(text).includes('logger'))).toHaveLength(1);
  warnings.mockRestore();
});
