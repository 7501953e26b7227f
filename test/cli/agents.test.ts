import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ROOT, run, runNpm } from '../../scripts/setup.mjs';
import { exampleNames } from '../../src/cli/agents/load-agent.ts';
import { createRegistry, offerHttp, tool } from '../../src/mcp/index.ts';
import { all, Caller, textOf } from '../a2a/support.ts';
import { expectNoStack, PATH_AGENT, Place } from './support.ts';
import { slowness } from '../support/busy.ts';

let place: Place;
beforeEach(async () => {
  place = await Place.open();
});
afterEach(async () => {
  await place[Symbol.asyncDispose]();
});

const says = (words: string): string =>
  `export default async function* () { yield { type: 'text.delta', id: 'a', delta: ${JSON.stringify(words)} }; }`;

describe('duolane new', () => {
  test('makes an agent whose npm test is green, offline', async () => {
    expect((await place.run(['new', 'my-agent'])).code).toBe(0);
    const offline = {
      ...process.env,
      npm_config_registry: 'http://127.0.0.1:1/',
      HOME: place.path,
    };
    const { code, output } = await runNpm(['test'], {
      cwd: place.file('my-agent'),
      env: offline,
      quiet: true,
    });
    expect(output).toMatch(/# pass 1\n# fail 0/);
    expect(code).toBe(0);
  });

  test('its agent can be talked to, by its own command', async () => {
    await place.run(['new', 'my-agent']);
    const folder = place.file('my-agent');
    const { code, output } = await run(
      join(folder, 'node_modules/.bin/duolane'),
      ['chat', 'agent.js', 'What time is it?'],
      { cwd: folder, env: { PATH: process.env['PATH'], HOME: place.path }, quiet: true },
    );
    expect(output).toMatch(/It is \d\d:\d\d:\d\d in Asia\/Tokyo\./);
    expect(code).toBe(0);
  });

  test('touches nothing that is there, and needs a name', async () => {
    await place.write('mine.txt', 'keep');
    const ended = await place.run(['new', '.']);
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    expect(ended.stderr).toMatch(/is not empty/);
    expect((await place.run(['new', 'mine.txt'])).stderr).toMatch(
      /cannot use .* \(ENOTDIR\): expected a folder/,
    );
    expect((await place.run(['new'])).code).toBe(2);
    expect(await readFile(place.file('mine.txt'), 'utf8')).toBe('keep');
  });
});

describe('duolane serve', () => {
  async function serving(
    ...args: string[]
  ): Promise<{ url: string; running: ReturnType<Place['start']> }> {
    const running = place.start(['serve', ...args, '--json', '--store', 'memory']);
    const [line] = await running.says(/^\{.*\}$/m);
    return { url: (JSON.parse(line) as { url: string }).url, running };
  }

  test('serves all samples together, as npm start does', async () => {
    const { url } = await serving(...exampleNames());
    const { agents } = (await (await fetch(`${url}/api/agents`)).json()) as {
      agents: { name: string }[];
    };
    const names = agents.map(({ name }) => name);
    expect(names).toEqual(
      expect.arrayContaining(['ai-doctor', 'distill', 'text-to-sql', 'tickets']),
    );
    expect(names).toHaveLength(exampleNames().length);
  });

  test('serves several agents, each at its own address', async () => {
    const one = await place.write('one.mjs', says('I am one'));
    const two = await place.write('two.mjs', says('I am two'));
    const { url } = await serving(one, two);
    const say = async (name: string): Promise<string> => {
      const caller = new Caller(url);
      Object.defineProperty(caller, 'url', { value: `${url}/a2a/${name}` });
      return textOf(await all(caller.say('hello')));
    };
    expect(await say('one')).toContain('I am one');
    expect(await say('two')).toContain('I am two');
  });

  test('new runs get the agent that is in the file, and a broken file changes nothing', async () => {
    const file = await place.write('agent.mjs', says('the first'));
    const { url, running } = await serving(file);
    const say = async (): Promise<string> => textOf(await all(new Caller(url).say('hello')));
    expect(await say()).toContain('the first');
    await writeFile(file, says('the second'));
    await running.says(/has changed: new runs use the new agent/);
    expect(await say()).toContain('the second');
    await writeFile(file, 'export default 1');
    await running.says(/has no agent: .*; the previous agent stays in use/);
    expect(await say()).toContain('the second');
  });

  test('says where it is and what to try, to a person', async () => {
    const running = place.start(['serve', PATH_AGENT, '--store', 'memory']);
    await running.says(/Ctrl-C drains and stops/);
    expect(running.stdout).toMatch(/^http:\/\/127\S+ {2}the page\n/);
    expect(running.stdout).toMatch(/\nTry on the page: Run; .*Disconnect.*Reconnect.*Cancel/);
    running.child.kill('SIGINT');
    await running.end();
  });

  test('has the same address each time, so that an open page finds it again; else a free one', async () => {
    const portOf = async (): Promise<string> => {
      const { url, running } = await serving(PATH_AGENT);
      running.child.kill('SIGINT');
      await running.end();
      return new URL(url).port;
    };
    // Others on this machine may have it for a moment.
    await expect.poll(portOf, { timeout: 50_000, interval: 500 }).toBe('8003');
    const taken = createServer().listen(8003, '127.0.0.1');
    await Promise.race([once(taken, 'listening'), once(taken, 'error')]);
    expect(await portOf()).not.toBe('8003');
    taken.close();
  });

  test('the error of an agent is printed with its location, and withheld from callers', async () => {
    const file = await place.write(
      'bad.mjs',
      `export default async function* () {\n  throw new Error('my own fault');\n}`,
    );
    const { url, running } = await serving(file);
    const talked = await place.run(['chat', url, 'hello']);
    expect(`${talked.stdout}${talked.stderr}`).not.toContain('my own fault');
    await running.says(/^agent bad failed: my own fault \(\/\S*bad\.mjs:2\)$/m);
    const here = await place.run(['chat', file, 'hello']);
    expect(here.stderr).toMatch(/^agent bad failed: my own fault \(\/\S*bad\.mjs:2\)\n$/);
    const debug = await place.run(['chat', file, 'hello'], { env: { DUOLANE_DEBUG: '1' } });
    expect(debug.stderr).toMatch(/my own fault\n +at .*bad\.mjs:2:9/);
  });

  test('--open without a browser says so and serves', async () => {
    const running = place.start(['serve', PATH_AGENT, '--open', '--store', 'memory']);
    await running.says(/cannot open a browser/);
    running.child.kill('SIGINT');
    expect((await running.end()).code).toBe(0);
  });
});

describe('duolane tools', () => {
  const SERVER = `
    import { createRegistry, offerStdio, tool } from ${JSON.stringify(pathToFileURL(join(ROOT, 'dist/mcp/index.js')).href)};
    const registry = createRegistry({ name: 'demo', version: '1' });
    registry.register(tool('add', 'Adds two numbers', { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
      async ({ a, b }, ctx) => { await ctx.progress(1, 2, 'half-way'); return String(a + b); }));
    registry.register(tool('fail', 'Fails', {}, () => { throw new Error('it broke'); }));
    await offerStdio(registry).done;`;

  test('lists and calls them, progress on stderr', async () => {
    const source = `stdio:'${process.execPath}' "${await place.write('server.mjs', SERVER)}"`;
    const listed = await place.run(['tools', source]);
    expect(listed.stdout).toMatch(/^add {2}Adds two numbers\n {4}\{ a: number, b: number \}\nfail/);
    const json = await place.run(['tools', source, '--json']);
    expect(
      json.stdout
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { name: string }).name),
    ).toEqual(['add', 'fail']);
    const called = await place.run(['tools', source, 'add', '{"a":2,"b":3}']);
    expect(called).toMatchObject({ code: 0, stdout: '5\n' });
    expect(called.stderr).toContain('1/2 half-way');
    const failed = await place.run(['tools', source, 'fail']);
    expect(failed).toMatchObject({ code: 1, stdout: 'Error: it broke\n' });
  });

  test('of a server over HTTP, too', async () => {
    const registry = createRegistry({ name: 'demo', version: '1' });
    registry.register(tool('greet', 'Greets', {}, () => 'hello'));
    await using offered = await offerHttp(registry);
    expect(await place.run(['tools', offered.url, 'greet'])).toMatchObject({
      code: 0,
      stdout: 'hello\n',
    });
    const away = await place.run(['tools', 'http://127.0.0.1:1/mcp']);
    expect(away.code).toBe(1);
    expectNoStack(away);
  });

  test.each([
    ['no source', ['tools'], /missing argument <source>/],
    ['an invalid source', ['tools', 'ftp://x'], /invalid source "ftp:\/\/x"/],
    [
      'a server that is not there',
      ['tools', 'stdio:no-such-server'],
      /command "no-such-server" not found/,
    ],
    ['invalid arguments', ['tools', 'stdio:true', 'add', '[1]'], /expected a JSON object/],
    ['a server that says nothing', ['tools', 'stdio:true'], /the tool server exited with code 0/],
  ])('%s is reported in plain text', async (_name, args, words) => {
    const ended = await place.run(args);
    expect(ended.code).toBeGreaterThan(0);
    expect(ended.stderr).toMatch(words);
    expectNoStack(ended);
  });
});

test('the demo says something within a second and is done within ten', async () => {
  const before = await slowness();
  const start = performance.now();
  const running = place.start(['demo']);
  running.child.stdin?.end();
  await running.says(/\S/);
  const first = performance.now() - start;
  const { code } = await running.end();
  const end = performance.now() - start;
  process.stderr.write(
    `demo: first output after ${first.toFixed(0)} ms, end after ${end.toFixed(0)} ms\n`,
  );
  expect(code).toBe(0);
  const slower = Math.max(before, await slowness());
  expect(first).toBeLessThan(1000 * slower);
  expect(end).toBeLessThan(10_000 * slower);
});
