import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { buildEnv, spawnProcess } from '../../src/process/index.ts';
import { InvalidLine, JsonlDecoder } from '../../src/wire/index.ts';
import { peer } from '../peers.ts';
import { serveScene } from '../support/acp-scene.ts';
import { type ModelScript, startModelServer } from '../support/model-server.ts';
import { suite } from '../verifies.ts';

// The client is the official SDK of the protocol; `duolane-agent` is the one of `dist`.

const sdk = await peer('acp');
const home = mkdtempSync(join(tmpdir(), 'duolane-acp-'));
afterAll(() => rmSync(home, { recursive: true, force: true, maxRetries: 5 }));
const CLI = fileURLToPath(new URL('../../dist/agent-cli/main.js', import.meta.url));

interface Sdk {
  client(): ClientApp;
  ndJsonStream(output: unknown, input: unknown): unknown;
}
type Context = { readonly params: JsonObject };
interface ClientApp {
  onRequest(method: string, handler: (context: Context) => unknown): ClientApp;
  onNotification(method: string, handler: (context: Context) => void): ClientApp;
  connect(stream: unknown): {
    readonly agent: {
      request(method: string, params: JsonObject): Promise<JsonObject>;
      notify(method: string, params: JsonObject): Promise<void>;
    };
  };
}

const agentEnv = buildEnv({
  allow: ['PATH'],
  set: {
    HOME: home,
    CLAUDE_CONFIG_DIR: join(home, 'config'),
    OPENAI_API_KEY: 'dummy',
    DUOLANE_RETRY_BASE_MS: '1',
  },
});

const start = (args: readonly string[]): ReturnType<typeof spawnProcess> =>
  spawnProcess({ command: CLI, args: ['--acp', ...args], env: agentEnv, cwd: home });

/** An editor that is connected to a new agent process. */
async function connect(url: string, choose = (_params: JsonObject): string => 'allow') {
  const lib = (await sdk.import('@agentclientprotocol/sdk')) as unknown as Sdk;
  const child = start(['--model', `openai:scripted@${url}/v1`]);
  const updates: JsonObject[] = [];
  const asked: JsonObject[] = [];
  const input = new WritableStream<Uint8Array>({ write: (chunk) => void child.write(chunk) });
  const { agent } = lib
    .client()
    .onNotification('session/update', ({ params }) => void updates.push(params))
    .onRequest('session/request_permission', ({ params }) => {
      asked.push(params);
      return { outcome: { outcome: 'selected', optionId: choose(params) } };
    })
    .connect(lib.ndJsonStream(input, ReadableStream.from(child.output)));
  const initialized = await agent.request('initialize', {
    protocolVersion: 1,
    clientCapabilities: {},
  });
  const prompt = (sessionId: unknown, text: string): Promise<JsonObject> =>
    agent.request('session/prompt', { sessionId, prompt: [{ type: 'text', text }] });
  const kinds = (kind: string): JsonObject[] =>
    updates
      .map(({ update }) => update as JsonObject)
      .filter(({ sessionUpdate }) => sessionUpdate === kind);
  const said = (kind = 'agent_message_chunk'): string =>
    kinds(kind)
      .map(({ content }) => String((content as JsonObject)['text']))
      .join('');
  return {
    agent,
    initialized,
    updates,
    asked,
    kinds,
    said,
    prompt,
    [Symbol.asyncDispose]: async () => child[Symbol.asyncDispose](),
  };
}

/** By what the conversation has, so that sessions do not share a position in the script. */
const scripted =
  (replies: Readonly<Record<string, ReturnType<Extract<ModelScript, Function>>>>): ModelScript =>
  ({ body }) => {
    const last = JSON.stringify((body['messages'] as unknown[]).slice(-2));
    const found = Object.entries(replies).find(([key]) => last.includes(key));
    return found ? found[1] : { text: 'Nothing.' };
  };

suite('acp', sdk.reason, () => {
  test('a conversation: text, an edit with its diff and permission, modes, and the history again', async () => {
    const path = join(home, 'note.txt');
    writeFileSync(path, 'one\n');
    const edit = { file_path: path, old_string: 'one', new_string: 'two' };
    await using model = await startModelServer(
      scripted({
        call_edit: { text: 'Edited.' },
        'Change it': {
          thinking: 'Hm.',
          tools: [{ id: 'call_read', name: 'Read', input: { file_path: path } }],
        },
        call_read: { tools: [{ id: 'call_edit', name: 'Edit', input: edit }] },
      }),
    );
    let session: unknown;
    {
      await using editor = await connect(model.url);
      expect(editor.initialized).toMatchObject({
        protocolVersion: 1,
        agentCapabilities: { loadSession: true },
      });
      const opened = await editor.agent.request('session/new', { cwd: home, mcpServers: [] });
      session = opened['sessionId'];
      expect(opened['modes']).toMatchObject({ currentModeId: 'default' });
      expect(await editor.prompt(session, 'Change it')).toMatchObject({ stopReason: 'end_turn' });
      await expect.poll(() => editor.said()).toBe('Edited.');
      expect(readFileSync(path, 'utf8')).toBe('two\n');
      expect(editor.asked).toMatchObject([
        {
          sessionId: session,
          toolCall: {
            toolCallId: 'call_edit',
            kind: 'edit',
            locations: [{ path }],
            content: [{ type: 'diff', path, oldText: 'one', newText: 'two' }],
          },
        },
      ]);
      expect(editor.kinds('tool_call').map(({ kind }) => kind)).toEqual(['read', 'edit']);
      await expect
        .poll(() => editor.kinds('tool_call_update').map(({ status }) => status))
        .toEqual(['completed', 'completed']);
      await editor.agent.request('session/set_mode', { sessionId: session, modeId: 'plan' });
      await expect
        .poll(() => editor.kinds('current_mode_update'))
        .toMatchObject([{ currentModeId: 'plan' }]);
      await expect(
        editor.agent.request('session/set_mode', { sessionId: session, modeId: 'yolo' }),
      ).rejects.toMatchObject({ code: -32602 });
    }
    await using editor = await connect(model.url);
    await editor.agent.request('session/load', { sessionId: session, cwd: home, mcpServers: [] });
    await expect.poll(() => editor.said()).toBe('Edited.');
    expect(editor.said('user_message_chunk')).toBe('Change it');
    expect(editor.kinds('tool_call').map(({ toolCallId }) => toolCallId)).toEqual([
      'call_read',
      'call_edit',
    ]);
    expect(await editor.prompt(session, 'More')).toMatchObject({ stopReason: 'end_turn' });
    expect(JSON.stringify(model.calls.at(-1)?.body)).toContain('Change it');
    await expect(
      editor.agent.request('session/load', { sessionId: 'no-such', cwd: home, mcpServers: [] }),
    ).rejects.toMatchObject({ code: -32002 });
  });

  test('sessions at the same time: tools of the editor, a rejected call, a cancel, errors', async () => {
    const ran: unknown[] = [];
    const add = {
      name: 'add',
      description: 'Adds one',
      schema: { type: 'object', properties: { a: { type: 'number' } } },
      run: async ({ a }: JsonObject) => {
        ran.push(a);
        return `sum ${Number(a) + 1}`;
      },
    };
    await using scene = await serveScene([add]);
    const call = (a: number) => ({
      tools: [{ id: `call_${a}`, name: 'mcp__scene__add', input: { a } }],
    });
    await using model = await startModelServer(
      scripted({
        call_1: { text: 'Added.' },
        call_2: { text: 'Not added.' },
        'Add one': call(1),
        'Add two': call(2),
        'Talk on': { text: ['It ', 'never ends'], fail: { after: 3, how: 'hang' } },
        'Fail now': { status: 400, message: 'no' },
      }),
    );
    await using editor = await connect(model.url, ({ toolCall }) =>
      (toolCall as JsonObject)['toolCallId'] === 'call_1' ? 'allow' : 'reject',
    );
    const mcpServers = [{ type: 'http', name: 'scene', url: scene.url, headers: [] }];
    const sessions = await Promise.all(
      [1, 2, 3].map(async () => {
        const opened = await editor.agent.request('session/new', { cwd: home, mcpServers });
        return opened['sessionId'];
      }),
    );
    const [one, two, three] = sessions;
    const talking = editor.prompt(three, 'Talk on');
    await Promise.all([editor.prompt(one, 'Add one'), editor.prompt(two, 'Add two')]);
    expect(ran).toEqual([1]);
    const ends = (): string[] =>
      editor
        .kinds('tool_call_update')
        .map(({ toolCallId, status }) => `${String(toolCallId)} ${String(status)}`)
        .toSorted();
    await expect.poll(ends).toEqual(['call_1 completed', 'call_2 failed']);
    await expect.poll(() => editor.said()).toContain('never');
    await expect(editor.prompt(three, 'Again')).rejects.toMatchObject({ code: -32602 });
    await editor.agent.notify('session/cancel', { sessionId: three });
    expect(await talking).toEqual({ stopReason: 'cancelled' });
    await expect(editor.prompt(one, 'Fail now')).rejects.toMatchObject({
      code: -32603,
      data: { status: 400, duolane: { code: 'invalid' } },
    });
    const audio = [{ type: 'audio', data: '', mimeType: 'audio/wav' }];
    await expect(
      editor.agent.request('session/prompt', { sessionId: one, prompt: audio }),
    ).rejects.toMatchObject({
      code: -32601,
      message: expect.stringContaining('"audio"') as string,
    });
  });
});

test('what is not a valid message gets an error, and the agent goes on', async () => {
  await using child = start(['--model', 'script:[]']);
  const request = (id: number, method: string, params: JsonObject = {}): string =>
    JSON.stringify({ jsonrpc: '2.0', id, method, params });
  child.write(
    [
      '{',
      '[]',
      '"x"',
      request(1, 'session/new', { cwd: home }),
      request(2, 'initialize', { protocolVersion: 1 }),
      request(3, 'session/new', { cwd: 'here' }),
      request(4, 'session/prompt', { sessionId: '../x', prompt: [] }),
      request(5, 'session/fork'),
      request(6, 'authenticate', { methodId: 'magic' }),
      request(8, 'session/new', { cwd: home, additionalDirectories: ['--settings={}'] }),
      request(7, 'session/load', { cwd: home, sessionId: '../../etc/passwd' }),
      '',
    ].join('\n'),
  );
  const decoder = new JsonlDecoder();
  const codes = new Map<unknown, unknown[]>();
  for await (const chunk of child.output)
    for (const line of decoder.decode(chunk)) {
      if (line instanceof InvalidLine) throw line.error;
      const { id, error } = line;
      if (id === 7) child.endInput();
      codes.set(id, [
        ...(codes.get(id) ?? []),
        (error as JsonObject | undefined)?.['code'] ?? 'ok',
      ]);
    }
  expect(Object.fromEntries(codes)).toEqual({
    null: [-32700, -32600, -32600],
    1: [-32600],
    2: ['ok'],
    3: [-32602],
    4: [-32002],
    5: [-32601],
    6: [-32602],
    7: [-32002],
    8: [-32602],
  });
  expect(await child.exited).toMatchObject({ code: 0 });
});

test('a session that is being loaded is not loaded a second time', async () => {
  await using child = start(['--model', 'script:[{"text":"hi"}]']);
  const write = (id: number, method: string, params: JsonObject): boolean =>
    child.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
  write(1, 'initialize', { protocolVersion: 1 });
  write(2, 'session/new', { cwd: home, mcpServers: [] });
  const decoder = new JsonlDecoder();
  const codes = new Map<unknown, unknown>();
  let sessionId: unknown;
  for await (const chunk of child.output)
    for (const line of decoder.decode(chunk)) {
      if (line instanceof InvalidLine) throw line.error;
      const { id, error, result } = line;
      if (id === undefined) continue;
      codes.set(id, (error as JsonObject | undefined)?.['code'] ?? 'ok');
      if (id === 2) {
        ({ sessionId } = result as JsonObject);
        write(3, 'session/prompt', { sessionId, prompt: [{ type: 'text', text: 'hi' }] });
      }
      if (id === 3)
        for (const load of [4, 5]) write(load, 'session/load', { cwd: home, sessionId });
      if (codes.size === 5) child.endInput();
    }
  expect(Object.fromEntries(codes)).toEqual({ 1: 'ok', 2: 'ok', 3: 'ok', 4: 'ok', 5: -32602 });
  expect(await child.exited).toMatchObject({ code: 0 });
});
