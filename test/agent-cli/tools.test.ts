import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { peer } from '../peers.ts';
import { survivors } from '../support/processes.ts';
import { RawHost, requestOf, Workspace } from './workspace.ts';
import { suite } from '../verifies.ts';

const ALL = ['--tools=default', '--model'];
const result = (host: RawHost): unknown[] =>
  host.seen
    .filter(({ type }) => type === 'user')
    .flatMap(({ message }) => (message as { content: JsonObject[] }).content)
    .filter(({ type }) => type === 'tool_result')
    .map(({ content, is_error }) => [content, is_error ?? false]);

/** Lets a scripted model call these tools, one after the other, and returns the results. */
async function callTools(
  ws: Workspace,
  calls: readonly JsonObject[],
  flags: readonly string[] = [],
): Promise<unknown[]> {
  const model = await ws.script([...calls.map((call) => ({ tools: [call] })), { text: 'done' }]);
  await using host = new RawHost(ws, [...ALL, model, ...flags]);
  host.prompt('go');
  expect(await host.result()).toMatchObject({ result: 'done' });
  return result(host);
}

describe('built-in tools', () => {
  test('are off by default', async () => {
    await using ws = await Workspace.open();
    await using host = new RawHost(ws, ['--model', await ws.script([{ text: 'x' }])]);
    host.prompt('go');
    expect(await host.type('system', 'init')).toMatchObject({ tools: [] });
    await using some = new RawHost(ws, [
      '--tools',
      'Read,Grep',
      '--model',
      await ws.script([{ text: 'x' }]),
    ]);
    some.prompt('go');
    expect(await some.type('system', 'init')).toMatchObject({ tools: ['Read', 'Grep'] });
  });

  test('write, edit, read, find and search files', async () => {
    await using ws = await Workspace.open();
    const results = await callTools(
      ws,
      [
        { name: 'Write', input: { file_path: 'src/a.txt', content: 'one\ntwo\nthree\n' } },
        { name: 'Edit', input: { file_path: 'src/a.txt', old_string: 'two', new_string: '2' } },
        { name: 'Edit', input: { file_path: 'src/a.txt', old_string: 'e', new_string: 'E' } },
        { name: 'Read', input: { file_path: 'src/a.txt', offset: 2, limit: 1 } },
        { name: 'Glob', input: { pattern: '**/*.txt' } },
        { name: 'Grep', input: { pattern: '^t', glob: '*.txt' } },
        { name: 'Read', input: { file_path: 'missing' } },
      ],
      ['--permission-mode=acceptEdits'],
    );
    expect(await readFile(join(ws.cwd, 'src/a.txt'), 'utf8')).toBe('one\n2\nthree\n');
    expect(results).toEqual([
      [expect.stringContaining('Wrote 14 bytes'), false],
      [expect.stringContaining('Replaced 1'), false],
      [expect.stringContaining('occurs 3 times'), true],
      [expect.stringContaining('     2\t2'), false],
      ['src/a.txt', false],
      ['src/a.txt:3:three', false],
      [expect.stringContaining('ENOENT'), true],
    ]);
  });

  test('do not leave the working directories without a permission, also through links', async () => {
    await using ws = await Workspace.open();
    await writeFile(join(ws.root, 'secret'), 'hidden');
    const { symlink } = await import('node:fs/promises');
    await symlink(ws.root, join(ws.cwd, 'link'));
    const reads = [
      { name: 'Read', input: { file_path: '../secret' } },
      { name: 'Read', input: { file_path: 'link/secret' } },
    ];
    for (const [, failed] of (await callTools(ws, reads)) as [unknown, boolean][])
      expect(failed).toBe(true);
    const added = await callTools(ws, reads, ['--add-dir', ws.root]);
    for (const [content] of added as [unknown, boolean][]) expect(content).toContain('hidden');
  });

  test('Bash runs allowed commands: output, exit code, timeout', async () => {
    await using ws = await Workspace.open();
    const results = await callTools(
      ws,
      [
        { name: 'Bash', input: { command: 'echo out; echo err >&2; exit 3' } },
        { name: 'Bash', input: { command: 'sleep 30', timeout: 200 } },
        { name: 'Bash', input: { command: 'head -c 300000 /dev/zero | tr "\\0" x' } },
        { name: 'Bash', input: { command: 'pwd' } },
      ],
      ['--permission-mode=bypassPermissions', '--allow-dangerously-skip-permissions'],
    );
    expect(results[0]).toEqual(['out\nerr\n(exit code 3)', true]);
    expect(results[1]).toEqual([expect.stringContaining('timed out after 200 ms'), true]);
    expect(results[2]).toEqual([expect.stringContaining('(200000 more characters)'), false]);
    expect(results[3]).toEqual([expect.stringContaining('work'), false]);
  });

  test('an interrupt ends the command of Bash and its children', async () => {
    await using ws = await Workspace.open();
    const command = 'sleep 300 & echo $! > child.pid; wait';
    const model = await ws.script([{ tools: [{ name: 'Bash', input: { command } }] }]);
    await using host = new RawHost(ws, [...ALL, model, '--dangerously-skip-permissions']);
    host.prompt('go');
    const read = (): Promise<number> =>
      readFile(join(ws.cwd, 'child.pid'), 'utf8').then(Number, () => 0);
    await expect.poll(read, { timeout: 60_000 }).toBeGreaterThan(0);
    host.request('i', 'interrupt');
    expect(await host.result()).toMatchObject({ terminal_reason: 'aborted_tools' });
    expect(await survivors([await read()], 10_000)).toEqual([]);
  });

  test('a permission request for a command suggests a rule that allows it', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([
      { tools: [{ name: 'Bash', input: { command: 'echo hi', description: 'Says hi' } }] },
      { text: 'done' },
    ]);
    await using host = new RawHost(ws, [...ALL, model, '--permission-prompt-tool=stdio'], {
      CLAUDE_CODE_SDK_READS_SESSION_STATE: '1',
    });
    host.prompt('go');
    const asked = await host.asked('can_use_tool');
    expect(requestOf(asked)).toMatchObject({
      tool_name: 'Bash',
      description: 'Says hi',
      permission_suggestions: [
        {
          type: 'addRules',
          rules: [{ toolName: 'Bash', ruleContent: 'echo hi' }],
          behavior: 'allow',
        },
      ],
    });
    host.answer(asked, { behavior: 'allow' });
    await host.result();
    expect(result(host)).toEqual([['hi', false]]);
    await host.next(({ state }) => state === 'idle');
    expect(host.seen.flatMap(({ state }) => (state === undefined ? [] : [state]))).toEqual([
      'running',
      'requires_action',
      'running',
      'idle',
    ]);
  });
});

const servers = await peer('mcp-servers');
const entry = (name: string): string =>
  join(servers.path, 'node_modules/@modelcontextprotocol', `server-${name}`, 'dist/index.js');

suite('MCP servers of other projects, over stdio', servers.reason, () => {
  const mcp = (config: JsonObject): string[] => [
    '--mcp-config',
    JSON.stringify({ mcpServers: config }),
    '--allowedTools',
    'mcp__files',
    'mcp__all',
    'mcp__memory',
    '--model',
  ];
  const node = (name: string, ...args: string[]): JsonObject => ({
    command: process.execPath,
    args: [entry(name), ...args],
  });

  test('files, memory and everything are connected in parallel and used in one turn', async () => {
    await using ws = await Workspace.open();
    await mkdir(join(ws.cwd, 'docs'));
    await writeFile(join(ws.cwd, 'docs/note.txt'), 'the note');
    const model = await ws.script([
      {
        tools: [
          { name: 'mcp__files__read_text_file', input: { path: join(ws.cwd, 'docs/note.txt') } },
        ],
      },
      {
        tools: [
          {
            name: 'mcp__memory__create_entities',
            input: {
              entities: [{ name: 'Ada', entityType: 'person', observations: ['likes blue'] }],
            },
          },
        ],
      },
      { tools: [{ name: 'mcp__all__echo', input: { message: 'hello' } }] },
      { text: 'done' },
    ]);
    const memory = { ...node('memory'), env: { MEMORY_FILE_PATH: join(ws.root, 'memory.json') } };
    await using host = new RawHost(ws, [
      ...mcp({ files: node('filesystem', join(ws.cwd, 'docs')), memory, all: node('everything') }),
      model,
    ]);
    host.prompt('go');
    const init = await host.type('system', 'init');
    expect(init['mcp_servers']).toEqual(
      ['files', 'memory', 'all'].map((name) => ({ name, status: 'connected', source: 'flag' })),
    );
    expect(await host.result()).toMatchObject({ result: 'done', permission_denials: [] });
    expect(JSON.stringify(result(host))).toContain('the note');
    expect(JSON.stringify(result(host))).toContain('hello');
    expect(await readFile(join(ws.root, 'memory.json'), 'utf8')).toContain('Ada');
    expect(await host.end()).toBe(0);
  });

  test('progress of a dialled server is passed on, and mcp_call reaches it', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([
      {
        tools: [
          { name: 'mcp__all__trigger-long-running-operation', input: { duration: 0.3, steps: 3 } },
        ],
      },
      { text: 'done' },
    ]);
    await using host = new RawHost(ws, [...mcp({ all: node('everything') }), model]);
    host.prompt('go');
    expect(await host.result()).toMatchObject({ result: 'done' });
    expect(host.seen.filter(({ type }) => type === 'tool_progress').length).toBeGreaterThanOrEqual(
      2,
    );
    host.request('c', 'mcp_call', { tool: 'mcp__all__echo', arguments: { message: 'direct' } });
    expect(JSON.stringify(await host.answered('c'))).toContain('direct');
  });

  test('elicitation of a dialled server becomes a request to the host', async () => {
    await using ws = await Workspace.open();
    const model = await ws.script([
      { tools: [{ name: 'mcp__all__trigger-elicitation-request' }] },
      { text: 'done' },
    ]);
    await using host = new RawHost(ws, [...mcp({ all: node('everything') }), model]);
    host.respond('elicitation', () => ({ action: 'decline' }));
    host.prompt('go');
    expect(requestOf(await host.asked('elicitation'))).toMatchObject({
      mcp_server_name: 'all',
      mode: 'form',
    });
    expect(await host.result()).toMatchObject({ result: 'done' });
  });

  test('the model of the session handles sampling of a dialled server', async () => {
    await using ws = await Workspace.open();
    const input = { prompt: 'name a colour', maxTokens: 20 };
    const model = await ws.script([
      { when: '^go$', tools: [{ name: 'mcp__all__trigger-sampling-request', input }] },
      { when: 'name a colour$', text: 'blue' },
      { text: 'done' },
    ]);
    const allowed = ['--settings', JSON.stringify({ sampling: { servers: ['all'] } })];
    await using host = new RawHost(ws, [...allowed, ...mcp({ all: node('everything') }), model]);
    host.prompt('go');
    expect(await host.result()).toMatchObject({ result: 'done' });
    expect(JSON.stringify(result(host))).toContain('blue');
  });

  test('a server that the settings do not name cannot use the model', async () => {
    await using ws = await Workspace.open();
    const file = join(ws.cwd, 'sampler.mjs');
    // It asks without the capability, as a hostile server does.
    await writeFile(
      file,
      `import { createInterface } from 'node:readline';
       const send = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
       let call;
       createInterface({ input: process.stdin }).on('line', (line) => {
         const { id, method, params, error, result } = JSON.parse(line);
         if (method === 'initialize')
           send({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} },
             serverInfo: { name: JSON.stringify(params.capabilities), version: '1' } } });
         else if (method === 'tools/list')
           send({ id, result: { tools: [{ name: 'ask', inputSchema: { type: 'object' } }] } });
         else if (method === 'tools/call') {
           call = id;
           send({ id: 's', method: 'sampling/createMessage', params: { messages: [], maxTokens: 9e9 } });
         } else if (id === 's')
           send({ id: call, result: { content: [{ type: 'text', text: error?.message ?? 'sampled' }] } });
       });`,
    );
    const model = await ws.script([{ tools: [{ name: 'mcp__all__ask' }] }, { text: 'done' }]);
    const config = { all: { command: process.execPath, args: [file] } };
    await using host = new RawHost(ws, [...mcp(config), model]);
    host.prompt('go');
    expect(await host.result()).toMatchObject({ result: 'done' });
    expect(JSON.stringify(result(host))).toContain('sampling is not allowed for MCP server');
  });

  test('a server that exits during a call fails the call, not the session', async () => {
    await using ws = await Workspace.open();
    const file = join(ws.cwd, 'mortal.ts');
    const door = (part: string): string =>
      JSON.stringify(fileURLToPath(new URL(`../../dist/mcp/${part}.js`, import.meta.url)));
    await writeFile(
      file.replace('.ts', '.mjs'),
      `import { createRegistry, offerStdio, tool } from ${door('index')};
       offerStdio(createRegistry({ name: 'mortal', tools: [tool('die', 'Dies', {}, () => process.exit(7))] }));`,
    );
    const model = await ws.script([{ tools: [{ name: 'mcp__all__die' }] }, { text: 'done' }]);
    await using host = new RawHost(ws, [
      ...mcp({ all: { command: process.execPath, args: [file.replace('.ts', '.mjs')] } }),
      model,
    ]);
    host.prompt('go');
    expect(await host.result()).toMatchObject({ result: 'done' });
    expect(result(host)).toEqual([[expect.stringContaining('exited with code 7'), true]]);
  });
});
