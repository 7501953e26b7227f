import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { collect, FakeCli, keptLogger, playedSession } from '../../../test/support/fake-cli.ts';
import { verifies } from '../../../test/verifies.ts';
import type { Frame } from '../../event/types.ts';
import { createSdkMcpServer, tool } from '../../mcp/registry/tool.ts';
import type { ToolHandler } from '../../mcp/types.ts';
import type { Transport } from '../../process/types.ts';
import { openSession } from './open-session.ts';

const ANY = { type: 'object' } as const;
const server = (handler: ToolHandler<never>): ReturnType<typeof createSdkMcpServer> =>
  createSdkMcpServer({
    name: 's',
    tools: [tool('run', 'runs', ANY, handler as ToolHandler<object>)],
  });

const unhandled: unknown[] = [];
const note = (reason: unknown): void => void unhandled.push(reason);
beforeAll(() => void process.on('unhandledRejection', note));
afterAll(() => void process.off('unhandledRejection', note));

/** A handler that a test ends by hand, and that reports when it began and was aborted. */
function held(): {
  readonly handler: ToolHandler<never>;
  readonly begun: Promise<void>;
  readonly finish: (text: string) => void;
  readonly aborted: Promise<unknown>;
} {
  let finish = (_text: string): void => {};
  let begin = (): void => {};
  let abort = (_reason: unknown): void => {};
  const result = new Promise<string>((resolve) => (finish = resolve));
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const aborted = new Promise<unknown>((resolve) => (abort = resolve));
  return {
    begun,
    aborted,
    finish: (text) => finish(text),
    handler: (_args, { signal }) => {
      begin();
      signal.addEventListener('abort', () => abort(signal.reason));
      return result;
    },
  };
}

describe('a response that cannot be delivered', () => {
  verifies(
    ['S10', 'S34', 'S96', 'S97', 'S111'],
    'is a lost frame, a message, and without a result a typed error',
    async () => {
      const { handler, begun, finish } = held();
      const frames: Frame[] = [];
      const options = { mcpServers: { s: server(handler) }, onFrame: (f: Frame) => frames.push(f) };
      const { cli, session } = await playedSession(options, { stays: true });
      await session.send('go');
      await cli.initialize();
      cli.call('s', 'run');
      await begun;
      session.endInput({ force: true }); // what a naive client does after a string prompt
      finish('the answer');
      cli.say(cli.assistant('made up'));
      await expect.poll(() => frames.some(({ lost }) => lost)).toBe(true);
      cli.peer.exit();
      const seen: unknown[] = [];
      await expect(
        (async () => {
          for await (const message of session.messages()) seen.push(message);
        })(),
      ).rejects.toMatchObject({ code: 'response_lost', cause: { exitCode: 0 } });
      expect(seen).toContainEqual(
        expect.objectContaining({ subtype: 'tool_response_lost', request_id: 'cli_1' }),
      );
      await expect(session.done).rejects.toMatchObject({ code: 'response_lost' });
      expect(frames.find(({ lost }) => lost)).toMatchObject({
        lane: 'control',
        direction: 'out',
        data: { type: 'control_response', response: { request_id: 'cli_1' } },
      });
    },
  );

  test('is not created when stdin is closed already: the tool does not run', async () => {
    let runs = 0;
    const options = { mcpServers: { s: server(() => `${++runs}`) } };
    const { cli, session } = await playedSession(options, { stays: true });
    await session.send('go');
    await cli.initialize();
    session.endInput({ force: true });
    cli.call('s', 'run');
    cli.peer.exit();
    await expect(session.done).rejects.toMatchObject({ code: 'response_lost' });
    expect(runs).toBe(0);
  });

  verifies(
    ['S110', 'S114', 'S115', 'S121'],
    'is only a warning if the turn has its result',
    async () => {
      const { lines, logger } = keptLogger();
      const { handler, begun, finish, aborted } = held();
      const options = { mcpServers: { s: server(handler) }, logger };
      const { cli, session } = await playedSession(options, { stays: true });
      await session.send('go');
      await cli.initialize();
      cli.call('s', 'run');
      await begun;
      cli.say(cli.result());
      await collect(session.response());
      cli.peer.exit({ code: null, signal: 'SIGKILL' });
      expect(await session.done).toEqual({ code: null, signal: 'SIGKILL' });
      await aborted;
      finish('too late');
      const rest = await collect(session.messages());
      expect(rest).toMatchObject([{ subtype: 'tool_response_lost' }]);
      expect(lines.filter(({ level }) => level === 'warn')).toEqual([
        {
          level: 'warn',
          message: 'ignored at shutdown: the turn has its result',
          data: { code: null, signal: 'SIGKILL', lost: 1 },
        },
      ]);
    },
  );

  test('is a failure in the next turn, in spite of an earlier result', async () => {
    const { handler, begun } = held();
    const options = { mcpServers: { s: server(handler) } };
    const { cli, session } = await playedSession(options, { stays: true });
    await session.send('one');
    await cli.initialize();
    cli.say(cli.result());
    await collect(session.response());
    await session.send('two');
    cli.call('s', 'run');
    await begun;
    cli.peer.exit({ code: 3, stderr: 'noise\nfatal: boom\nmore\n' });
    await expect(collect(session.response())).rejects.toMatchObject({
      code: 'peer_exited',
      message: 'the agent exited with code 3 before the result of the turn; stderr: fatal: boom',
      cause: { exitCode: 3, stderr: expect.stringContaining('boom') as string },
    });
  });

  for (const [name, error] of [
    ['bare', new Error('EPIPE')],
    [
      'in a group',
      new AggregateError([new Error('EPIPE'), new Error('closed')], 'unhandled errors'),
    ],
  ] as const) {
    verifies('S113', `is reported in the same way when the pipe throws ${name}`, async () => {
      const cli = new FakeCli();
      let broken = false;
      const transport: Transport = {
        ...cli.transport,
        write(text) {
          if (broken) throw error;
          return cli.transport.write(text);
        },
      };
      const session = await openSession({
        transport: () => transport,
        mcpServers: { s: server(() => 'ok') },
      });
      await session.send('go');
      await cli.initialize();
      broken = true;
      cli.call('s', 'run');
      const first = session.messages()[Symbol.asyncIterator]();
      expect((await first.next()).value).toMatchObject({ subtype: 'tool_response_lost' });
      cli.peer.exit();
      await expect(first.next()).rejects.toMatchObject({ code: 'response_lost' });
    });
  }
});

describe('the end of the CLI', () => {
  verifies(
    ['S13', 'S111'],
    'without a result is a typed error with code, stderr and last frames',
    async () => {
      const { cli, session } = await playedSession({}, { stays: true });
      const pending = session.request('never');
      await session.send('go');
      cli.say(cli.assistant('half'));
      cli.peer.exit({ code: 143, stderr: 'Error: killed' });
      await expect(pending).rejects.toMatchObject({ code: 'peer_exited' });
      const failure = (await session.done.catch((error: unknown) => error)) as Error & {
        cause: { frames: unknown[] };
      };
      expect(failure).toMatchObject({
        name: 'DuolaneError',
        code: 'peer_exited',
        retryable: false,
      });
      expect(failure.cause).toMatchObject({ exitCode: 143, stderr: 'Error: killed' });
      expect(failure.cause.frames.map((frame) => (frame as { type: string }).type)).toEqual([
        'control_request',
        'control_request',
        'user',
        'assistant',
      ]);
    },
  );

  test('with exit 0 but no result is a failure as well', async () => {
    const { cli, session } = await playedSession({}, { stays: true });
    await session.send('go');
    await cli.initialize();
    cli.peer.exit();
    await expect(session.done).rejects.toMatchObject({
      code: 'peer_exited',
      message: 'the agent exited with code 0 before the result of the turn',
    });
  });

  test('before it was ready is a failure; while idle without a message it is not', async () => {
    const dead = await playedSession({}, { stays: true });
    dead.cli.peer.exit({ code: 1 });
    await expect(dead.session.ready()).rejects.toMatchObject({ code: 'peer_exited' });
    const idle = await playedSession({}, { stays: true });
    await idle.cli.initialize();
    await idle.session.initialized;
    idle.cli.peer.exit();
    expect(await idle.session.done).toEqual({ code: 0 });
    await expect(idle.session.send('late')).rejects.toMatchObject({ code: 'closed' });
  });

  test('with another exit code is only a warning if the turn has its result', async () => {
    const { lines, logger } = keptLogger();
    const { cli, session } = await playedSession({ logger }, { stays: true });
    await session.send('go');
    await cli.initialize();
    cli.say(cli.result());
    await collect(session.response());
    cli.peer.exit({ code: 3, stderr: 'crashed on the way out' });
    expect(await session.done).toEqual({ code: 3 });
    expect(lines).toMatchObject([{ level: 'warn', data: { code: 3, lost: 0 } }]);
  });

  test('after an error result does not fail the session', async () => {
    const { lines, logger } = keptLogger();
    const { cli, session } = await playedSession({ logger }, { stays: true });
    await session.send('go');
    await cli.initialize();
    session.endInput();
    cli.say(cli.result({ is_error: true, subtype: 'error_during_execution', errors: ['no'] }));
    await cli.ended;
    cli.peer.exit({ code: 1 });
    expect(await collect(session.messages())).toMatchObject([{ is_error: true }]);
    expect(await session.done).toEqual({ code: 1 });
    expect(lines).toEqual([]);
  });

  test('is enforced when it ignores the end of its input after the last result', async () => {
    const { lines, logger } = keptLogger();
    const { cli, session } = await playedSession({ logger, exitMs: 30 }, { stays: true });
    await session.send('go');
    await cli.initialize();
    session.endInput();
    cli.say(cli.result());
    expect(await session.done).toEqual({ code: 0 }); // what disposing a memory transport gives
    expect(lines).toMatchObject([
      { level: 'warn', message: expect.stringMatching(/did not exit/) as string },
    ]);
  });
});

describe('closing', () => {
  verifies(
    ['S92', 'S107', 'S117'],
    'ends the input, aborts handlers, awaits them, and only then closes the transport',
    async () => {
      const order: string[] = [];
      const cli = new FakeCli();
      const transport: Transport = {
        ...cli.transport,
        async [Symbol.asyncDispose]() {
          order.push('transport closed');
          await cli.transport[Symbol.asyncDispose]();
        },
      };
      let begin = (): void => {};
      const begun = new Promise<void>((resolve) => (begin = resolve));
      const handler: ToolHandler<never> = async (_args, { signal }) => {
        begin();
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        order.push('handler cancelled');
        await new Promise((resolve) => setTimeout(resolve, 10));
        order.push('handler cleaned up');
        return 'late';
      };
      const session = await openSession({
        transport: () => transport,
        mcpServers: { s: server(handler) },
      });
      await session.send('go');
      await cli.initialize();
      cli.call('s', 'run');
      await begun;
      await session[Symbol.asyncDispose]();
      await session[Symbol.asyncDispose]();
      expect(order).toEqual(['handler cancelled', 'handler cleaned up', 'transport closed']);
      expect(await session.done).toEqual({ code: 0 });
      expect(await collect(session.messages())).toEqual([]);
      expect(await cli.until('control_request', 'interrupt')).toBeDefined();
    },
  );

  test('does not wait for a handler that ignores its signal', async () => {
    const { handler, begun } = held();
    const { cli, session } = await playedSession({ mcpServers: { s: server(handler) } });
    await session.send('go');
    await cli.initialize();
    cli.call('s', 'run');
    await begun;
    await session[Symbol.asyncDispose](); // the handler never ends
    await expect(session.done).resolves.toBeDefined();
  });

  test('ends a waiting loop without an error', async () => {
    const { session } = await playedSession();
    const reading = collect(session.messages());
    await session[Symbol.asyncDispose]();
    expect(await reading).toEqual([]);
    await expect(session.request('x')).rejects.toMatchObject({ code: 'closed' });
  });

  verifies('S109', 'during a late request works a thousand times without an error', async () => {
    const s = server(async () => 'ok');
    for (let n = 0; n < 1000; n++) {
      const cli = new FakeCli();
      const session = await openSession({
        transport: () => cli.transport,
        mcpServers: { s },
      });
      const reading = collect(session.messages()).catch((error: unknown) => error);
      await session.send('go');
      await cli.initialize();
      if (n % 2 === 0) cli.say(cli.result());
      cli.call('s', 'run'); // the late request: its answer races with the closing
      // Each of the three tasks (reader, handler, writer) is caught at another step.
      for (let ticks = n % 25; ticks > 0; ticks--) await Promise.resolve();
      if (n % 5 === 4) await new Promise((resolve) => setImmediate(resolve));
      if (n % 3 === 0) cli.peer.exit({ code: n % 7 });
      await session[Symbol.asyncDispose]();
      const outcome = await reading;
      if (!Array.isArray(outcome)) expect(outcome).toMatchObject({ code: 'peer_exited' });
    }
    await new Promise((resolve) => setImmediate(resolve));
    expect(unhandled).toEqual([]);
  });
});
