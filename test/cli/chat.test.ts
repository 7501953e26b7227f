import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DuolaneError } from '../../src/errors.ts';
import { serve } from '../../src/serve/index.ts';
import type { Agent } from '../../src/event/types.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import { startServer } from '../page/server.ts';
import { suite } from '../verifies.ts';
import { expectNoStack, missingPty, PATH_AGENT, Place } from './support.ts';

let place: Place;
beforeEach(async () => {
  place = await Place.open();
});
afterEach(async () => {
  await place[Symbol.asyncDispose]();
});

/** Asks before it works, counts, and has data to show. */
const agent: Agent = async function* (turn, ctx) {
  const [part] = turn.parts;
  const text = part && 'text' in part ? part.text : '';
  if (text.startsWith('ask')) {
    const { action } = await ctx.ask({
      id: `${turn.messageId}/go`,
      kind: 'approval',
      message: 'Shall I?',
    });
    yield { type: 'text.delta', id: 'a', delta: `You said ${action}.\n` };
    return;
  }
  const count = Number(/\d+/.exec(text)?.[0] ?? 3);
  yield { type: 'status', message: 'counting' };
  for (let n = 0; n < count; n++) {
    yield { type: 'text.delta', id: 'a', delta: `n${n} ` };
    await once(AbortSignal.any([ctx.signal, AbortSignal.timeout(10)]), 'abort');
    if (ctx.signal.aborted) return;
  }
  yield {
    type: 'artifact',
    artifactId: 'd',
    name: 'summary',
    parts: [{ data: { counted: count } }],
  };
};

test('lines of stdin are turns with a module, and its questions are declined', async () => {
  const running = place.start(['chat', PATH_AGENT]);
  running.child.stdin?.end('lookup lane\napprove lane\n');
  const ended = await running.end();
  expect(ended.code).toBe(0);
  expect(ended.stdout).toContain('The tool says: lane: one of two');
  expect(ended.stdout).toContain('The tool says: lane: rejected');
  expect(ended.stderr).toContain('lane? (no terminal: declined)');
});

test('a server that is not there is said in one line', async () => {
  const ended = await place.run(['chat', 'http://127.0.0.1:1', 'hello']);
  expect(ended.code).toBe(1);
  expect(ended.stderr).toMatch(
    /^duolane: cannot reach http:\/\/127\.0\.0\.1:1\S*; check that the server is running/,
  );
  expectNoStack(ended);
});

test('a turn with a server streams text, progress and data', async () => {
  await using served = await serve(agent, { log: memoryLog(), page: false });
  const { code, stdout } = await place.run(['chat', served.url, 'count', '3']);
  expect(stdout).toBe('counting\nn0 n1 n2 \n\nsummary\ncounted: 3\ncompleted\n');
  expect(code).toBe(0);
});

test('chat prints why a server rejects a message', async () => {
  const picky: Agent = async function* () {
    const error = new DuolaneError('invalid', 'expected a patient record').toJSON();
    yield { type: 'run.finished', outcome: 'rejected', text: '', error };
  };
  await using served = await serve(picky, { log: memoryLog(), page: false });
  const ended = await place.run(['chat', served.url, 'hello']);
  expect(ended).toMatchObject({ code: 1, stdout: 'rejected: expected a patient record\n' });
});

/** The prompt as the last thing on the screen, whatever moves the cursor there. */
const after = (word: string): RegExp => new RegExp(`${word}[^]*> (?:\\u001b\\[[\\d;]*[A-Za-z])*$`);
const PROMPT = after('');

suite('pty', missingPty, () => {
  test('a person talks, approves, cancels a turn, and exits with Ctrl-C twice', async () => {
    await using served = await serve(agent, { log: memoryLog(), page: false });
    const running = place.start(['chat', served.url], { pty: true });
    await running.says(PROMPT);
    running.type('ask me\n');
    await running.says(/Shall I\? \[y\/N\]/);
    for (const [index, words] of ['absolutely not', 'stop', 'wat'].entries()) {
      running.type(`${words}\n`);
      await running.says(new RegExp(`(?:Please answer yes or no[^]*){${index + 1}}`));
    }
    running.type('yes\n');
    await running.says(/You said accept\./);
    await running.says(after('completed'));
    running.type('ask again\n');
    await running.says(/accept[^]*Shall I\? \[y\/N\]/);
    running.type('\n');
    await running.says(/You said decline\./);
    await running.says(after('decline[^]*completed'));
    running.type('count 5000\n');
    await running.says(/n20 /);
    running.type('\u0003');
    await running.says(after('canceled'));
    running.type('\u0003');
    await running.says(/Ctrl-C again to exit/);
    running.type('\u0003');
    const ended = await running.end();
    expect(ended.code).toBe(0);
    expect(ended.stdout).not.toContain('n4999');
    expectNoStack(ended);
  });

  test('Ctrl-D exits, and the terminal is as it was', async () => {
    const running = place.start(['chat', PATH_AGENT], { pty: true });
    await running.says(PROMPT);
    running.type('\u0004');
    const { code, stdout } = await running.end();
    expect(code).toBe(0);
    // oxlint-disable-next-line no-control-regex -- what leaves a terminal in a strange mode
    expect(stdout).not.toMatch(/\u001b\[\?(25l|1049h)/);
  });

  test('colours are there at a terminal, and gone with NO_COLOR', async () => {
    const colourful = place.start(['demo', PATH_AGENT], { pty: true });
    await colourful.says(/Press Enter/);
    colourful.type('\r');
    expect((await colourful.end()).stdout).toContain('\u001b[32m✓');
    const plain = place.start(['demo', PATH_AGENT], { pty: true, env: { NO_COLOR: '1' } });
    await plain.says(/Press Enter/);
    plain.type('\r');
    expect((await plain.end()).stdout).not.toContain('\u001b[');
  });

  test('a demo ends with a link to the page that has its run, until Enter or Ctrl-C', async () => {
    for (const key of ['\r', '\u0003']) {
      const running = place.start(['demo', PATH_AGENT], { pty: true, env: { NO_COLOR: '1' } });
      const [, url = '', task = ''] = await running.says(
        /(http:\/\/127[^#]+)\/#(\S+)[^]*Press Enter/,
      );
      expect(await (await fetch(url)).text()).toContain('<title>Duolane');
      const log = await fetch(`${url}/api/tasks/${task}`);
      expect(await log.json()).toMatchObject({ task, state: 'completed' });
      running.type(key);
      const ended = await running.end();
      expect(ended.code).toBe(0);
      expectNoStack(ended);
    }
  });

  test('Ctrl-C at a question of a demo stops it, and the shell gets its terminal back', async () => {
    const file = await place.write(
      'asking.mjs',
      `export { default } from ${JSON.stringify(PATH_AGENT)};
       export const options = { form: { examples: ['approve lane'] } };`,
    );
    const running = place.start(['demo', file], { pty: true });
    await running.says(/lane\? \[y\/N\]/);
    running.type('\u0003');
    const ended = await running.end();
    expect(ended.code).toBe(130);
    expectNoStack(ended);
  });
});

test('a line that breaks is made again by itself, with every word once, and that is said', async () => {
  await using line = await cuttableLine();
  // The agent goes on only after the cut: on a busy machine it would be done before the chat shows
  // its first words.
  let resume = (): void => {};
  const cut = new Promise<void>((resolve) => (resume = resolve));
  const counting: Agent = async function* () {
    for (let n = 0; n < 60; n++) {
      if (n === 31) await cut;
      yield { type: 'text.delta', id: 'a', delta: `n${n} ` };
    }
  };
  const options = { log: memoryLog(), page: false, publicUrl: line.url } as const;
  await using served = await serve(counting, options);
  line.to(Number(new URL(served.url).port));
  const running = place.start(['chat', line.url, 'count']);
  await running.says(/n30 /);
  line.cut();
  resume();
  const { code, stdout, stderr } = await running.end();
  expect(stdout.match(/n\d+/g)).toEqual(Array.from({ length: 60 }, (_, n) => `n${n}`));
  expect(stderr).toContain('Connection lost, reconnecting');
  expect(code).toBe(0);
});

test('a server that is killed and comes back: nothing twice, and the end is the truth', async () => {
  await using server = await startServer(['page-agent', 'form-agent']);
  const running = place.start(['chat', `${server.url}/a2a/page-agent`, 'count 2000']);
  await running.says(/w20 /);
  await server.kill();
  await server.start();
  const ended = await running.end();
  const words = ended.stdout.match(/\bw\d+/g) ?? [];
  expect(words).toEqual(words.map((_, n) => `w${n + 1}`));
  expect(ended.stdout).toMatch(/failed: .*Send the message again\.\n$/);
  expect(ended.code).toBe(1);
  expectNoStack(ended);
});

interface Line extends AsyncDisposable {
  readonly url: string;
  /** Which port it leads to. */
  to(port: number): void;
  /** Tears every connection; later ones work. */
  cut(): void;
}

async function cuttableLine(): Promise<Line> {
  const sockets = new Set<Socket>();
  let port = 0;
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    }
    near.pipe(far).pipe(near);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    cut: () => sockets.forEach((socket) => socket.destroy()),
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    to: (target) => (port = target),
    async [Symbol.asyncDispose]() {
      sockets.forEach((socket) => socket.destroy());
      server.close();
      await once(server, 'close');
    },
  };
}
