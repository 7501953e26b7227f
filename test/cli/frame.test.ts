import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { exampleNames } from '../../src/cli/agents/load-agent.ts';
import { sqliteLog } from '../../src/task/sqlite/sqlite-log.ts';
import { survivors } from '../support/processes.ts';
import { COMMAND, expectNoStack, PATH_AGENT, Place } from './support.ts';

let place: Place;
beforeEach(async () => {
  place = await Place.open();
});
afterEach(async () => {
  await place[Symbol.asyncDispose]();
});

const names = Object.keys(COMMANDS);

describe('help', () => {
  test('names every command, and what the exit codes mean', async () => {
    const { code, stdout, stderr } = await place.run([]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const name of names) expect(stdout).toContain(`  ${name} `);
    expect(stdout).toContain('Exit codes: 0 done');
  });

  test.each(names)('of %s is plain, and costs no start of anything', async (name) => {
    const { code, stdout, stderr } = await place.run([name, '--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain(`Usage: duolane ${name}`);
    expect(stdout.split('\n').filter((line) => line.length > 120)).toEqual([]);
  });
});

test('the help names the samples that there are', async () => {
  const { stdout } = await place.run(['demo', '--help']);
  expect(stdout).toContain(`Samples: ${exampleNames().join(', ')}.`);
});

describe('wrong arguments end with code 2 and one line that says what is expected', () => {
  test.each<[string, readonly string[], RegExp]>([
    ['an unknown command', ['fly'], /unknown command "fly"; available: demo, /],
    ['a name of every object', ['constructor'], /unknown command "constructor"/],
    [
      'an unknown flag',
      ['serve', '--prot', '1'],
      /unknown option "--prot"; see duolane serve --help/,
    ],
    ['no agent to serve', ['serve'], /missing argument <agent>: expected a module or a sample/],
    ['a missing module', ['serve', './nope.js'], /module or sample "\.\/nope\.js" not found/],
    [
      'an invalid port',
      ['serve', PATH_AGENT, '--port', 'x'],
      /invalid --port "x": expected a number from 0 to 65535/,
    ],
    [
      'an invalid auth',
      ['serve', PATH_AGENT, '--auth', 'me'],
      /invalid --auth: expected bearer:@<file>/,
    ],
    [
      'a public address without auth',
      ['serve', PATH_AGENT, '--host', '0.0.0.0', '--store', 'memory'],
      /auth/,
    ],
    ['one agent twice', ['serve', PATH_AGENT, PATH_AGENT], /two agents have the name "path-agent"/],
    ['an unknown sample', ['demo', 'nope'], /module or sample "nope" not found/],
    ['no command to wrap', ['wrap'], /missing argument <command>/],
    [
      'a trace that cannot be written',
      ['wrap', '--trace', '/no/such/folder/x', '--', 'true'],
      /cannot be written/,
    ],
    ['a missing trace', ['doctor', 'nope.jsonl'], /file "nope\.jsonl" not found/],
    [
      'an invalid speed',
      ['replay', 'package.json', '--speed', '99'],
      /file ".*" not found|invalid --speed/,
    ],
    ['a folder for a trace', ['replay', '.'], /file "\." not found/],
    ['a folder to check', ['doctor', '.'], /file "\." not found/],
    ['no agent to chat with', ['chat'], /missing argument <agent>/],
    ['no shell', ['completion'], /duolane completion bash\|zsh\|fish/],
    [
      'an extra argument',
      ['demo', 'tickets', 'distill'],
      /unexpected argument "distill"; see duolane demo --help/,
    ],
    ['two traces', ['doctor', 'a.jsonl', 'b.jsonl'], /unexpected argument "b\.jsonl"/],
    ['extra addresses', ['bridge', 'stdio:a', 'stdio:', 'x', 'y'], /unexpected arguments "x y"/],
    ['an invalid address', ['chat', 'http://['], /invalid address "http:\/\/\["/],
  ])('%s', async (_name, args, words) => {
    const ended = await place.run(args);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toMatch(words);
    expect(ended.stderr.trimEnd().split('\n')).toHaveLength(1);
    expect(ended.stdout).toBe('');
    expectNoStack(ended);
  });

  test('a module that throws', async () => {
    const file = await place.write('bad.mjs', `throw new Error('my own fault');`);
    const ended = await place.run(['serve', file]);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toMatch(/cannot load \S+: my own fault\n$/);
    expectNoStack(ended);
  });

  test('a module without an agent', async () => {
    const file = await place.write('bad.mjs', `export const agent = 1;`);
    const ended = await place.run(['serve', file]);
    expect(ended.stderr).toMatch(/has no agent: expected a default export/);
  });
});

test('a port in use is said, with the way out', async () => {
  const busy = createServer().listen(0, '127.0.0.1');
  await once(busy, 'listening');
  const { port } = busy.address() as { port: number };
  const ended = await place.run(['serve', PATH_AGENT, '--port', String(port), '--store', 'memory']);
  busy.close();
  expect(ended.code).toBe(2);
  expect(ended.stderr).toContain(
    `cannot listen on 127.0.0.1:${port}: the port is in use; use another one (--port)`,
  );
  expectNoStack(ended);
});

test('a store that another process holds is said, with its number', async () => {
  await using held = await sqliteLog({ file: place.file('tasks.sqlite') });
  expect(held).toBeDefined();
  const ended = await place.run(['serve', PATH_AGENT, '--store', 'tasks.sqlite']);
  expect(ended.code).toBe(1);
  expect(ended.stderr).toContain(`is in use by process ${process.pid}`);
  expectNoStack(ended);
});

test('a reader that leaves ends the command quietly', async () => {
  const child = spawn(process.execPath, [COMMAND, 'chat', PATH_AGENT, 'count', '100000'], {
    cwd: place.path,
    env: { PATH: process.env['PATH'], HOME: place.path },
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  await once(child.stdout, 'data');
  child.stdout.destroy();
  const [code] = (await once(child, 'close')) as [number | null];
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
});

test('colours are for terminals only', async () => {
  const { stdout } = await place.run(['demo', PATH_AGENT]);
  expect(stdout).toContain('✓ lookup');
  expect(stdout).not.toContain('\u001b');
});

test('an answer of the model cannot steer the terminal', async () => {
  const file = await place.write(
    'evil.mjs',
    `export default async function* () { yield { type: 'text.delta', id: 'a', delta: 'x\\u001b]0;owned\\u0007y\\u001b[2Jz\\n' }; }
     export const options = { form: { examples: ['go'] } };`,
  );
  const { stdout } = await place.run(['demo', file]);
  // oxlint-disable-next-line no-control-regex -- that is what it is about
  expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);
  expect(stdout).toContain('owned');
});

describe('Ctrl-C', () => {
  test('during a run cancels it, and nothing is left', async () => {
    const demo = await place.write(
      'slow.mjs',
      `export { default } from ${JSON.stringify(PATH_AGENT)};
       export const options = { form: { examples: ['count 100000'] } };`,
    );
    const running = place.start(['demo', demo]);
    await running.says(/w3 /);
    running.child.kill('SIGINT');
    const ended = await running.end();
    expect(ended.code).toBe(130);
    expect(ended.stdout).toMatch(/canceled\n$/);
    expectNoStack(ended);
  });

  test('twice exits immediately, also with an unresponsive agent; its children end too', async () => {
    const deaf = await place.write(
      'deaf.mjs',
      `import { spawnProcess } from ${JSON.stringify(new URL('../../dist/process/index.js', import.meta.url).href)};
       export default async function* () {
         const child = spawnProcess({ command: process.execPath, args: ['-e', 'setInterval(() => {}, 1000)'], env: {} });
         yield { type: 'text.delta', id: 'a', delta: 'pid ' + child.pid + '\\n' };
         await new Promise(() => setInterval(() => {}, 1000));
       }
       export const options = { form: { examples: ['go'] } };`,
    );
    const running = place.start(['demo', deaf]);
    const pid = Number((await running.says(/pid (\d+)/))[1]);
    running.child.kill('SIGINT');
    running.child.kill('SIGTERM');
    const ended = await running.end();
    expect(ended.code).toBe(130);
    expect(await survivors([pid], 10_000)).toEqual([]);
  });

  test('at the very start, and while a server serves, is a clean stop', async () => {
    const running = place.start(['serve', PATH_AGENT, '--store', 'memory']);
    await running.says(/Ctrl-C drains and stops/);
    running.child.kill('SIGINT');
    const ended = await running.end();
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    const early = place.start(['serve', PATH_AGENT, '--store', 'memory']);
    early.child.kill('SIGINT');
    const { stderr } = await early.end();
    expect(stderr).toBe('');
  });

  test('SIGTERM has its own code', async () => {
    const running = place.start(['chat', PATH_AGENT, 'count 100000']);
    await running.says(/w3 /);
    running.child.kill('SIGTERM');
    expect((await running.end()).code).toBe(143);
  });
});

test.each(['bash', 'zsh', 'fish'])('the completion for %s has every command', async (shell) => {
  const { code, stdout } = await place.run(['completion', shell]);
  expect(code).toBe(0);
  for (const name of names) expect(stdout).toContain(name);
});

test('bash completes commands, flags and values with it', async () => {
  const { stdout: script } = await place.run(['completion', 'bash']);
  await place.write('complete.sh', script);
  const complete = async (...words: string[]): Promise<string[]> => {
    const line = `source complete.sh; COMP_WORDS=(duolane ${words.map((word) => `'${word}'`).join(' ')});
      COMP_CWORD=${words.length}; _duolane; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const child = spawn('bash', ['-c', line], { cwd: place.path });
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    await once(child, 'close');
    return text.split('\n').filter((word) => word !== '');
  };
  expect(await complete('wr')).toEqual(['wrap']);
  expect(await complete('serve', '--po')).toEqual(['--port']);
  expect(await complete('completion', 'f')).toEqual(['fish']);
});
