import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { survivors } from '../support/processes.ts';
import { RawHost, requestOf, Workspace } from './workspace.ts';

const ALL = ['--tools=default', '--model'];

const resultsOf = (host: RawHost): { text: string; failed: boolean }[] =>
  host.seen
    .filter(({ type }) => type === 'user')
    .flatMap(({ message }) => (message as { content: JsonObject[] }).content)
    .filter(({ type }) => type === 'tool_result')
    .map(({ content, is_error }) => ({ text: String(content), failed: is_error === true }));

/** Lets a scripted model call these tools, one after the other, and returns the results. */
async function callTools(
  ws: Workspace,
  calls: readonly JsonObject[],
  flags: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<{ text: string; failed: boolean }[]> {
  const model = await ws.script([...calls.map((call) => ({ tools: [call] })), { text: 'done' }]);
  await using host = new RawHost(ws, [...ALL, model, ...flags], env);
  host.prompt('go');
  expect(await host.result()).toMatchObject({ result: 'done' });
  return resultsOf(host);
}

describe('paths', () => {
  test.each([
    ['acceptEdits', ['--permission-mode=acceptEdits']],
    ['an allow rule', ['--allowedTools', 'Write(src/**)', 'Write(notes.md)']],
    ['an allow rule for all', ['--allowedTools', 'Write(**)']],
  ])('%s does not write through a dangling link', async (_, flags) => {
    await using ws = await Workspace.open();
    await mkdir(join(ws.cwd, 'src'));
    await symlink(join(ws.root, 'planted.txt'), join(ws.cwd, 'notes.md'));
    await symlink(join(ws.root, 'folder'), join(ws.cwd, 'src/deep'));
    const results = await callTools(
      ws,
      [
        { name: 'Write', input: { file_path: 'notes.md', content: 'x' } },
        { name: 'Write', input: { file_path: 'src/deep/a.txt', content: 'x' } },
      ],
      flags,
    );
    expect(results.map(({ failed }) => failed)).toEqual([true, true]);
    expect(existsSync(join(ws.root, 'planted.txt'))).toBe(false);
    expect(existsSync(join(ws.root, 'folder'))).toBe(false);
  });

  test('Read refuses a pipe, a device and /proc without waiting, and SIGTERM ends the CLI', async () => {
    await using ws = await Workspace.open();
    execFileSync('mkfifo', [join(ws.cwd, 'pipe')]);
    const reads = ['pipe', '/dev/zero', '/proc/self/environ', '.'].map((file_path) => ({
      name: 'Read',
      input: { file_path },
    }));
    const results = await callTools(
      ws,
      [
        ...reads,
        { name: 'Edit', input: { file_path: 'pipe', old_string: 'a', new_string: 'b' } },
        { name: 'Write', input: { file_path: 'pipe', content: 'b' } },
        { name: 'Grep', input: { pattern: 'x', path: 'pipe' } },
      ],
      ['--dangerously-skip-permissions'],
    );
    expect(results.map(({ failed }) => failed)).toEqual(results.map(() => true));
    expect(results[2]?.text).toContain('is a file of the kernel');
  });

  test('a relative pattern matches nothing outside of the working directory', async () => {
    await using ws = await Workspace.open();
    await writeFile(join(ws.root, 'outside.txt'), 'secret');
    const results = await callTools(
      ws,
      [
        { name: 'Read', input: { file_path: '../outside.txt' } },
        { name: 'Read', input: { file_path: join(ws.root, 'outside.txt') } },
        { name: 'Write', input: { file_path: join(ws.root, 'new.txt'), content: 'x' } },
      ],
      ['--allowedTools', 'Read(**)', 'Write(**)'],
    );
    expect(results.map(({ failed }) => failed)).toEqual([true, true, true]);
    expect(existsSync(join(ws.root, 'new.txt'))).toBe(false);
  });

  test('the deny rule Read(secret/**) applies through links, to Grep and to Glob', async () => {
    await using ws = await Workspace.open();
    await mkdir(join(ws.cwd, 'secret'));
    await writeFile(join(ws.cwd, 'secret/key.txt'), 'hunter2');
    await writeFile(join(ws.cwd, 'open.txt'), 'hunter2 is mentioned');
    await symlink('secret', join(ws.cwd, 'alias'));
    await symlink('secret/key.txt', join(ws.cwd, 'key'));
    const calls = [
      { name: 'Read', input: { file_path: 'secret/key.txt' } },
      { name: 'Read', input: { file_path: 'alias/key.txt' } },
      { name: 'Read', input: { file_path: 'key' } },
      { name: 'Read', input: { file_path: 'x/../alias/key.txt' } },
      { name: 'Grep', input: { pattern: 'hunter' } },
      { name: 'Grep', input: { pattern: 'hunter', path: 'alias' } },
      { name: 'Grep', input: { pattern: 'hunter', path: 'secret/key.txt' } },
      { name: 'Glob', input: { pattern: '**/*.txt' } },
    ];
    for (const rule of ['Read(secret/**)', `Read(${ws.cwd}/secret/**)`, 'Read(secret)']) {
      const results = await callTools(ws, calls, [
        '--dangerously-skip-permissions',
        '--disallowedTools',
        rule,
      ]);
      expect(results.map(({ failed }) => failed).slice(0, 4)).toEqual([true, true, true, true]);
      const all = results.map(({ text }) => text).join('\n');
      expect(all).not.toContain('secret/key.txt:1');
      expect(all).not.toMatch(/hunter2$/m);
      expect(results[4]?.text).toContain('open.txt:1:hunter2 is mentioned');
      expect(results[4]?.text).toContain('hidden by a rule of Read');
      expect(results[7]?.text).toContain('open.txt');
      expect(results[7]?.text).not.toContain('key.txt');
    }
  });
});

test('a deny rule for a command covers other spellings of it', async () => {
  await using ws = await Workspace.open();
  const commands = [
    'touch made',
    'touch\tmade',
    '\\touch made',
    '(touch made)',
    'echo $(touch made)',
    'A=1 touch made',
    'command touch made',
    'env touch made',
    'if true; then touch made; fi',
    'tou\\\nch made',
    "sh -c 'touch made'",
    'x=touch; $x made',
  ];
  const results = await callTools(
    ws,
    commands.map((command) => ({ name: 'Bash', input: { command } })),
    ['--dangerously-skip-permissions', '--disallowedTools', 'Bash(touch *)'],
  );
  expect(results.map(({ failed }) => failed)).toEqual(commands.map(() => true));
  expect(existsSync(join(ws.cwd, 'made'))).toBe(false);
});

describe('an approval with edits', () => {
  const ask = ['--permission-prompt-tool=stdio'];
  const ls = { name: 'Bash', input: { command: 'ls' } };

  test('is decided again: a deny rule wins', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([{ tools: [ls] }, { text: 'done' }]);
    const deny = ['--disallowedTools', 'Bash(touch *)'];
    await using host = new RawHost(ws, [...ALL, model, ...ask, ...deny]);
    host.prompt('go');
    host.answer(await host.asked('can_use_tool'), {
      behavior: 'allow',
      updatedInput: { command: 'touch made' },
    });
    expect(await host.result()).toMatchObject({
      result: 'done',
      permission_denials: [{ tool_name: 'Bash', tool_input: { command: 'touch made' } }],
    });
    expect(resultsOf(host)).toMatchObject([{ failed: true }]);
    expect(existsSync(join(ws.cwd, 'made'))).toBe(false);
  });

  test('needs another approval if it reaches outside of what was approved', async () => {
    await using ws = await Workspace.open();
    await writeFile(join(ws.cwd, 'in.txt'), 'in');
    await writeFile(join(ws.root, 'out.txt'), 'the outside');
    const write = { name: 'Write', input: { file_path: 'in.txt', content: 'x' } };
    const model = await ws.script([{ tools: [write] }, { text: 'done' }]);
    await using host = new RawHost(ws, [...ALL, model, ...ask]);
    host.prompt('go');
    const edited = { file_path: join(ws.root, 'out.txt'), content: 'y' };
    host.answer(await host.asked('can_use_tool'), { behavior: 'allow', updatedInput: edited });
    const again = await host.asked('can_use_tool');
    expect(requestOf(again)).toMatchObject({
      input: edited,
      blocked_path: join(ws.root, 'out.txt'),
    });
    host.answer(again, { behavior: 'deny', message: 'no' });
    await host.result();
    expect(await readFile(join(ws.root, 'out.txt'), 'utf8')).toBe('the outside');
  });

  test('must match the schema of the tool', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([{ tools: [ls] }, { text: 'done' }]);
    await using host = new RawHost(ws, [...ALL, model, ...ask]);
    host.prompt('go');
    host.answer(await host.asked('can_use_tool'), {
      behavior: 'allow',
      updatedInput: { command: ['ls'], timeout: 'long' },
    });
    await host.result();
    expect(resultsOf(host)).toMatchObject([
      { failed: true, text: expect.stringContaining('command') },
    ]);
  });

  test('runs if no rule and no check denies it', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([{ tools: [ls] }, { text: 'done' }]);
    await using host = new RawHost(ws, [...ALL, model, ...ask]);
    host.prompt('go');
    host.answer(await host.asked('can_use_tool'), {
      behavior: 'allow',
      updatedInput: { command: 'echo edited' },
    });
    await host.result();
    expect(resultsOf(host)).toEqual([{ failed: false, text: 'edited' }]);
  });
});

describe('secrets', () => {
  const KEYS = {
    ANTHROPIC_API_KEY: 'canary-1',
    OPENAI_API_KEY: 'canary-2',
    ANTHROPIC_AUTH_TOKEN: 'canary-3',
    GITHUB_TOKEN: 'canary-4',
    AWS_SECRET_ACCESS_KEY: 'canary-5',
    MY_DB_PASSWORD: 'canary-6',
    ANTHROPIC_CUSTOM_HEADERS: 'x: canary-7',
    PGPASSWORD: 'canary-8',
    HARMLESS: 'stays',
  };
  const env = { name: 'Bash', input: { command: 'env' } };
  const skip = '--dangerously-skip-permissions';

  test('in the environment of the CLI do not reach Bash', async () => {
    await using ws = await Workspace.open();
    const [shown] = await callTools(ws, [env], [skip], KEYS);
    expect(shown?.text).not.toContain('canary');
    expect(shown?.text).toContain('HARMLESS=stays');
  });

  test('that the settings name reach Bash', async () => {
    await using ws = await Workspace.open();
    const settings = JSON.stringify({ passEnv: ['GITHUB_TOKEN', 'AWS_*'] });
    const [shown] = await callTools(ws, [env], [skip, '--settings', settings], KEYS);
    expect(shown?.text.match(/canary-\d/g)?.toSorted()).toEqual(['canary-4', 'canary-5']);
  });

  test('do not reach a stdio server, unless its config names them', async () => {
    await using ws = await Workspace.open();
    const file = join(ws.root, 'env.json');
    const dump = `require('fs').writeFileSync(${JSON.stringify(file)}, JSON.stringify(process.env)); process.exit(3)`;
    const config = {
      mcpServers: {
        s: { command: process.execPath, args: ['-e', dump], env: { MY_TOKEN: 'given' } },
      },
    };
    await callTools(ws, [], ['--mcp-config', JSON.stringify(config)], KEYS);
    const seen = JSON.parse(await readFile(file, 'utf8')) as Record<string, string>;
    expect(JSON.stringify(seen)).not.toContain('canary');
    expect(seen).toMatchObject({ MY_TOKEN: 'given', HARMLESS: 'stays' });
  });

  test('only the owner can read a transcript and its folders', async () => {
    await using ws = await Workspace.open();
    await callTools(ws, []);
    const projects = join(ws.config, 'projects');
    const [name = ''] = await readdir(projects);
    const [file = ''] = await readdir(join(projects, name));
    const mode = async (path: string): Promise<number> => (await stat(path)).mode & 0o777;
    expect(await mode(join(projects, name, file))).toBe(0o600);
    expect(await mode(join(projects, name))).toBe(0o700);
    expect(await mode(projects)).toBe(0o700);
    expect(await mode(ws.config)).toBe(0o700);
  });
});

test('a daemon by double fork ends with the call that started it', async () => {
  await using ws = await Workspace.open();
  const mark = randomUUID();
  const command = `(setsid sh -c 'echo $$ > daemon.pid; exec sleep 300' ${mark} >/dev/null 2>&1 &) ; while [ ! -s daemon.pid ]; do sleep 0.05; done`;
  await callTools(ws, [{ name: 'Bash', input: { command } }], ['--dangerously-skip-permissions']);
  const pid = Number(await readFile(join(ws.cwd, 'daemon.pid'), 'utf8'));
  expect(pid).toBeGreaterThan(0);
  expect(await survivors([pid], 10_000)).toEqual([]);
});

/** The decisions that the CLI wrote on the message lane, without what each line has. */
const decisionsOf = (host: RawHost): JsonObject[] =>
  host.seen
    .filter(({ subtype }) => subtype === 'policy_decision')
    .map((line) =>
      Object.fromEntries(Object.entries(line).filter(([name]) => !LINE_FIELDS.includes(name))),
    );
const LINE_FIELDS = ['type', 'subtype', 'uuid', 'session_id', 'timestamp'];

test('every decision about a call is on the message lane before the call runs', async () => {
  await using ws = await Workspace.open();
  const bash = (command: string): JsonObject => ({ tools: [{ name: 'Bash', input: { command } }] });
  const model = await ws.script([
    bash('echo allowed'),
    bash('touch denied'),
    bash('ls asked'),
    bash('ls changed'),
    bash('ls forbidden'),
    bash('ls declined'),
    { text: 'done' },
  ]);
  await using host = new RawHost(ws, [
    ...ALL,
    model,
    '--permission-prompt-tool=stdio',
    '--allowedTools',
    'Bash(echo *)',
    '--disallowedTools',
    'Bash(touch *)',
  ]);
  const answers: Record<string, JsonObject> = {
    'ls asked': { behavior: 'allow' },
    'ls changed': { behavior: 'allow', updatedInput: { command: 'pwd' } },
    'ls forbidden': { behavior: 'allow', updatedInput: { command: 'touch made' } },
    'ls declined': { behavior: 'deny', message: 'not today' },
  };
  host.respond('can_use_tool', ({ input }) => answers[String((input as JsonObject)['command'])]);
  host.prompt('go');
  await host.result();
  const common = { tool_name: 'Bash', permission_mode: 'default' };
  const message = 'Bash is denied by the rule Bash(touch *).';
  const id = (n: number): string => `toolu_script_${n}`;
  expect(decisionsOf(host)).toEqual(
    [
      { tool_use_id: id(1), decision: 'allow', by: 'rule', rule: 'Bash(echo *)' },
      { tool_use_id: id(2), decision: 'deny', by: 'rule', rule: 'Bash(touch *)', message },
      { tool_use_id: id(3), decision: 'ask', by: 'default' },
      { tool_use_id: id(3), decision: 'allow', by: 'answer' },
      { tool_use_id: id(4), decision: 'ask', by: 'default' },
      {
        tool_use_id: id(4),
        decision: 'allow',
        by: 'answer',
        changed_by: 'answer',
        input: { command: 'pwd' },
      },
      { tool_use_id: id(5), decision: 'ask', by: 'default' },
      {
        tool_use_id: id(5),
        decision: 'deny',
        by: 'rule',
        rule: 'Bash(touch *)',
        message,
        changed_by: 'answer',
        input: { command: 'touch made' },
      },
      { tool_use_id: id(6), decision: 'ask', by: 'default' },
      { tool_use_id: id(6), decision: 'deny', by: 'answer', message: 'not today' },
    ].map((each) => ({ ...common, ...each })),
  );
});

describe('a permanent permission', () => {
  test.each([
    ['', 'echo other'],
    [' ', 'echo other'],
    ['echo *', 'echo a -x b'],
    ['*', 'echo other'],
    ['echo:*', 'echo other'],
    ['echo a', 'echo b'],
    ['echo a # not b', "echo a '#' not b"],
    ['echo ~/a', "echo '~/a'"],
    ['echo {a,b}', "echo '{a,b}'"],
    ["sh -c 'echo a' 'x; touch b'", `sh -c "echo a' 'x; touch b"`],
  ])('for %j does not cover %j', async (approved, other) => {
    await using ws = await Workspace.open();
    const bash = (command: string): JsonObject => ({
      tools: [{ name: 'Bash', input: { command } }],
    });
    const model = await ws.script([bash(approved), bash(other), { text: 'done' }]);
    await using host = new RawHost(ws, [...ALL, model, '--permission-prompt-tool=stdio']);
    const asked: unknown[] = [];
    host.respond('can_use_tool', ({ input, permission_suggestions }) => {
      asked.push((input as JsonObject)['command']);
      return { behavior: 'allow', updatedPermissions: permission_suggestions };
    });
    host.prompt('go');
    expect(await host.result()).toMatchObject({ result: 'done' });
    expect(asked).toEqual([approved, other]);
  });

  test.each([
    ['Write', { file_path: 'a.txt' }, 'Write', { file_path: '../other.txt' }],
    ['Write', { file_path: 'a.txt' }, 'Write', { file_path: 'b.txt' }],
    ['Write', { file_path: 'a.txt' }, 'Write', { file_path: '.git/config' }],
    ['Read', { file_path: '../secret/a' }, 'Read', { file_path: '../secret/b' }],
    ['Read', { file_path: '../secret/a' }, 'Write', { file_path: '../secret/a' }],
    ['Glob', { pattern: '*', path: '../secret' }, 'Write', { file_path: '../secret/a' }],
    ['Glob', { pattern: '*', path: '../secret' }, 'Read', { file_path: '../secret/a' }],
    ['Write', { file_path: '../secret/a' }, 'Write', { file_path: '../secret/b' }],
    ['Write', { file_path: '../secret/{a,b}' }, 'Write', { file_path: '../secret/b' }],
  ])('for %s of %j does not cover %s of %j', async (tool, input, then, other) => {
    await using ws = await Workspace.open();
    await mkdir(join(ws.root, 'secret'));
    for (const name of ['a', 'b']) await writeFile(join(ws.root, 'secret', name), 'old');
    const call = (name: string, given: object): JsonObject => ({
      tools: [{ name, input: { content: 'new', ...given } }],
    });
    const model = await ws.script([
      call(tool, input),
      call(tool, input),
      call(then, other),
      { text: 'done' },
    ]);
    await using host = new RawHost(ws, [...ALL, model, '--permission-prompt-tool=stdio']);
    const asked: unknown[] = [];
    host.respond('can_use_tool', ({ tool_name, permission_suggestions }) => {
      asked.push(tool_name);
      return { behavior: 'allow', updatedPermissions: permission_suggestions };
    });
    host.prompt('go');
    expect(await host.result()).toMatchObject({ result: 'done' });
    const isPattern = JSON.stringify(input).includes('{a,b}');
    expect(asked).toEqual(isPattern ? [tool, tool, then] : [tool, then]);
  });

  test('with an empty pattern allows nothing', async () => {
    await using ws = await Workspace.open();
    const call = { tools: [{ name: 'Bash', input: { command: 'echo a' } }] };
    const model = await ws.script([call, call, { text: 'done' }]);
    await using host = new RawHost(ws, [...ALL, model, '--permission-prompt-tool=stdio']);
    let asked = 0;
    const rules = [{ toolName: 'Bash', ruleContent: '' }];
    host.respond('can_use_tool', () => {
      asked++;
      const updatedPermissions = [{ type: 'addRules', rules, behavior: 'allow' }];
      return { behavior: 'allow', updatedPermissions };
    });
    host.prompt('go');
    await host.result();
    expect(asked).toBe(2);
  });
});
