import { once } from 'node:events';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { serve } from '../../src/serve/index.ts';
import type { Agent } from '../../src/event/types.ts';
import { memoryLog } from '../../src/task/memory.ts';
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
  expect(ended.stderr).toContain('lane? (no terminal to ask at: declined)');
});

test('a server that is not there is said in one line', async () => {
  const ended = await place.run(['chat', 'http://127.0.0.1:1', 'hello']);
  expect(ended.code).toBe(1);
  expect(ended.stderr).toMatch(
    /^duolane: http:\/\/127\.0\.0\.1:1\S* cannot be reached: is the server running\?/,
  );
  expectNoStack(ended);
});

test('a turn with a server streams text, progress and data', async () => {
  await using served = await serve(agent, { log: memoryLog(), page: false });
  const { code, stdout } = await place.run(['chat', served.url, 'count', '3']);
  expect(stdout).toBe('counting\nn0 n1 n2 \n\nsummary\ncounted: 3\ncompleted\n');
  expect(code).toBe(0);
});

/** The prompt as the last thing on the screen, whatever moves the cursor there. */
const after = (word: string): RegExp => new RegExp(`${word}[^]*> (?:\\u001b\\[[\\d;]*[A-Za-z])*$`);
const PROMPT = after('');

suite('pty', missingPty, () => {
  test('a person talks, approves, cancels a turn, and leaves with Ctrl-C twice', async () => {
    await using served = await serve(agent, { log: memoryLog(), page: false });
    const running = place.start(['chat', served.url], { pty: true });
    await running.says(PROMPT);
    running.type('ask me\n');
    await running.says(/Shall I\? \[Y\/n\]/);
    running.type('\n');
    await running.says(/You said accept\./);
    await running.says(after('completed'));
    running.type('count 5000\n');
    await running.says(/n20 /);
    running.type('\u0003');
    await running.says(after('canceled'));
    running.type('\u0003');
    await running.says(/Ctrl-C again to leave/);
    running.type('\u0003');
    const ended = await running.end();
    expect(ended.code).toBe(0);
    expect(ended.stdout).not.toContain('n4999');
    expectNoStack(ended);
  });

  test('Ctrl-D leaves, and the terminal is as it was', async () => {
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
    await colourful.says(/Enter ends/);
    colourful.type('\r');
    expect((await colourful.end()).stdout).toContain('\u001b[32m✓');
    const plain = place.start(['demo', PATH_AGENT], { pty: true, env: { NO_COLOR: '1' } });
    await plain.says(/Enter ends/);
    plain.type('\r');
    expect((await plain.end()).stdout).not.toContain('\u001b[');
  });

  test('a demo ends with a link to the page that has its run, until Enter or Ctrl-C', async () => {
    for (const key of ['\r', '\u0003']) {
      const running = place.start(['demo', PATH_AGENT], { pty: true, env: { NO_COLOR: '1' } });
      const [, url = '', task = ''] = await running.says(
        /(http:\/\/127[^#]+)\/#(\S+)[^]*Enter ends/,
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
    await running.says(/lane\? \[Y\/n\]/);
    running.type('\u0003');
    const ended = await running.end();
    expect(ended.code).toBe(130);
    expectNoStack(ended);
  });
});
