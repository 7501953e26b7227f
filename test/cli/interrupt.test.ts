import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ROOT } from '../../scripts/setup.mjs';
import { serve, type Served } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import { suite } from '../verifies.ts';
import { COMMAND, expectNoStack, missingPty, PATH_AGENT, Place } from './support.ts';

// Ctrl-C at any moment of any command: no stack trace, no process left, the terminal as it was.

const MCP = JSON.stringify(pathToFileURL(join(ROOT, 'dist/mcp/index.js')).href);
const SERVER = `
  import { createRegistry, offerStdio, tool } from ${MCP};
  const registry = createRegistry({ name: 'slow', version: '1' });
  registry.register(tool('wait', 'Waits', {}, (_, ctx) => new Promise((resolve) => {
    void ctx.progress(1, 2, 'waiting');
    ctx.signal.addEventListener('abort', resolve);
  })));
  await offerStdio(registry).done;`;

let place: Place;
let served: Served;
beforeAll(async () => {
  place = await Place.open();
  await place.write('server.mjs', SERVER);
  await place.write(
    'slow.mjs',
    `export { default } from ${JSON.stringify(PATH_AGENT)};
     export const options = { form: { examples: ['count 100000'] } };`,
  );
  const { stdout } = await place.run(['demo', PATH_AGENT, '--json']);
  await place.write('log.jsonl', stdout.replaceAll(/"at":(\d+)(\d{4})/g, '"at":$1$2000'));
  served = await serve(
    async function* (_turn, { signal }) {
      for (let n = 0; !signal.aborted; n++) {
        yield { type: 'text.delta', id: 't', delta: `n${n} ` };
        await sleep(20, undefined, { signal }).catch(() => {});
      }
    },
    { log: memoryLog(), page: false },
  );
});
afterAll(async () => {
  await served[Symbol.asyncDispose]();
  await served.log[Symbol.asyncDispose]();
  await place[Symbol.asyncDispose]();
});

/** Processes that work in the folder of this test, but for the test itself. */
function left(): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    try {
      if (!/^\d+$/.test(pid) || !readlinkSync(`/proc/${pid}/cwd`).startsWith(place.path)) return [];
      return [readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')];
    } catch {
      return []; // it has ended meanwhile, or is not ours
    }
  });
}

const stdio = (): string => `stdio:'${process.execPath}' server.mjs`;
const CASES: readonly (readonly [string, () => readonly string[], RegExp])[] = [
  ['demo', () => ['demo', 'slow.mjs'], /w3 /],
  ['demo --break', () => ['demo', '--break', 'slow-consumer'], /\S/],
  ['serve', () => ['serve', PATH_AGENT, '--store', 'tasks.sqlite'], /drains and stops/],
  ['chat, here', () => ['chat', PATH_AGENT, 'count 100000'], /w3 /],
  ['chat, elsewhere', () => ['chat', served.url, 'go'], /n3 /],
  [
    'wrap',
    () => ['wrap', '--', process.execPath, '-e', 'console.log(7); setInterval(() => {}, 1e3)'],
    /7/,
  ],
  ['doctor', () => ['doctor'], /sqlite/],
  ['doctor of a server', () => ['doctor', served.url, '--json'], /never/],
  ['replay', () => ['replay', 'log.jsonl'], /\S/],
  ['tools', () => ['tools', stdio(), 'wait'], /waiting/],
  ['bridge', () => ['bridge', stdio(), 'http://127.0.0.1:0'], /http:\/\//],
  ['new', () => ['new', `agent-${Math.random()}`], /\S/],
  ['completion', () => ['completion', 'bash'], /\S/],
];
/** `work`: when it has said what it says at work. The others are shares of the time that its start takes. */
const MOMENTS = [0.2, 0.5, 1, 'work'] as const;

suite(
  'Ctrl-C at any moment',
  process.platform === 'linux' ? undefined : 'it reads /proc of Linux',
  () => {
    test.each(CASES)('of %s', async (_name, args, atWork) => {
      const start = performance.now();
      await place.run(['--version']);
      const startMs = performance.now() - start;
      await Promise.all(
        MOMENTS.map(async (moment) => {
          const running = place.start(args());
          const ended = running.end();
          const said =
            moment === 'work' ? running.says(atWork).catch(() => {}) : sleep(startMs * moment * 2);
          await Promise.race([said, ended, sleep(4000)]);
          running.child.kill('SIGINT');
          const { code, signal, stderr, stdout } = await ended;
          const how = { moment, code, signal, stderr };
          expectNoStack({ code, signal, stdout, stderr });
          // Before our own first line runs, the system ends it; after that, we do.
          expect(how).toSatisfy(() => signal === 'SIGINT' || [0, 1, 130].includes(code ?? -1));
        }),
      );
      await expect.poll(left, { timeout: 60_000 }).toEqual([]);
    });
  },
);

suite('pty', missingPty, () => {
  test.each([
    ['chat', PATH_AGENT, /> /, ['\u0004']],
    ['chat', PATH_AGENT, /> /, ['count 1000\r', '\u0003', '\u0003', '\u0003', '\u0003']],
    ['demo', 'slow.mjs', /w3 /, ['\u0003']],
    ['demo', PATH_AGENT, /Press Enter/, ['\u0003']],
  ])('%s %s leaves the terminal as it was', async (command, agent, ready, keys) => {
    const line = `stty -g; '${process.execPath}' '${COMMAND}' ${command} '${agent}'; echo; stty -g`;
    const running = place.start([], { pty: true, shell: `trap : INT; ${line}` });
    await running.says(ready);
    for (const key of keys) {
      running.type(key);
      await sleep(300); // a person's pace: each is a key of its own
    }
    const { stdout } = await running.end();
    const [before, after, ...more] = stdout.match(/^[\da-f]+(:[\da-f]+){10,}/gm) ?? [];
    expect(before).toBeDefined();
    expect([after, ...more]).toEqual([before]);
    // oxlint-disable-next-line no-control-regex -- what leaves a terminal in a strange mode
    expect(stdout).not.toMatch(/\u001b\[\?(25l|1049h)/);
  });
});
