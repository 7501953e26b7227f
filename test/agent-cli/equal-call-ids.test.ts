import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { query, createSdkMcpServer, tool } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { AGENT, RawHost, Workspace } from './workspace.ts';

const blocksOf = (message: JsonObject): readonly JsonObject[] => {
  const { content } = (message['message'] ?? {}) as JsonObject;
  return Array.isArray(content) ? (content as JsonObject[]) : [];
};

test.each([
  ['in one answer', [{ tools: ['list', 'delete'] }]],
  ['in two answers', [{ tools: ['list'] }, { tools: ['delete'] }]],
])(
  'two calls with the same id of the model, %s, are decided, made and answered separately',
  async (_, answers) => {
    await using workspace = await Workspace.open();
    const model = await workspace.script([
      ...answers.map(({ tools }) => ({
        tools: tools.map((what) => ({ name: 'mcp__notes__act', id: 'call_0', input: { what } })),
      })),
      { text: 'done' },
    ]);
    const asked: string[] = [];
    const made: unknown[] = [];
    const schema = { type: 'object', properties: { what: { type: 'string' } } };
    const act = tool('act', 'Acts', schema, async ({ what }) => {
      made.push(what);
      return `did ${String(what)}`;
    });
    const run = query({
      prompt: 'go',
      options: {
        pathToClaudeCodeExecutable: AGENT,
        cwd: workspace.cwd,
        env: workspace.env,
        model,
        mcpServers: { notes: createSdkMcpServer({ name: 'notes', tools: [act] }) },
        canUseTool: (_name, { what }, { toolUseID }) => {
          asked.push(`${toolUseID} ${String(what)}`);
          return Promise.resolve(
            what === 'list'
              ? { behavior: 'allow' as const }
              : { behavior: 'deny' as const, message: 'not that' },
          );
        },
      },
    });
    const results: unknown[] = [];
    for await (const message of run)
      for (const block of blocksOf(message as unknown as JsonObject))
        if (block['type'] === 'tool_result') results.push(block['tool_use_id']);
    expect(asked).toEqual(['call_0 list', 'call_0_2 delete']);
    expect(made).toEqual(['list']);
    expect(results).toEqual(['call_0', 'call_0_2']);
  },
);

/** The requests to a model that plays `body`; `n` counts them. */
async function requestsTo(
  body: string,
  prompts: readonly string[],
  seen: (host: RawHost) => void = () => {},
): Promise<readonly { readonly role: string; readonly content: JsonObject[] }[][]> {
  await using workspace = await Workspace.open();
  const [file, notes] = ['model.mjs', 'notes'].map((name) => join(workspace.root, name));
  await writeFile(
    file as string,
    `import { appendFileSync } from 'node:fs';
     let n = 0;
     export default async function* model({ messages }) {
       n += 1;
       appendFileSync(${JSON.stringify(notes)}, JSON.stringify(messages) + '\\n');
       ${body}
     }`,
  );
  await using host = new RawHost(workspace, ['--model', `module:${file}`, '--tools=default']);
  for (const prompt of prompts) {
    host.prompt(prompt);
    await host.result();
  }
  seen(host);
  const lines = (await readFile(notes as string, 'utf8')).trim().split('\n');
  return lines.map((line) => JSON.parse(line));
}

test('model messages with the same id stay separate messages', async () => {
  const requests = await requestsTo(
    `yield { type: 'start', id: 'msg' };
     if (n > 1) return yield 'answer ' + n;
     yield { type: 'tool_use', id: 'a', name: 'Glob' };
     yield { type: 'tool_input', json: '{"pattern": "*"}' };`,
    ['one', 'two'],
  );
  const last = requests.at(-1)?.map(({ content }) => content.map(({ type, text }) => text ?? type));
  expect(last).toEqual([['one'], ['tool_use'], ['tool_result'], ['answer 2'], ['two']]);
});

test('call ids have neither slashes nor characters that cannot be stored, and a limited length', async () => {
  let ids: unknown[] = [];
  await requestsTo(
    `if (n > 1) return yield 'done';
     for (const id of ['a/b', '\\ud800', 'functions.Glob:0', 'x'.repeat(100_000)]) {
       yield { type: 'tool_use', id, name: 'Glob' };
       yield { type: 'tool_input', json: '{"pattern": "*"}' };
     }`,
    ['go'],
    (host) => {
      ids = host.seen
        .flatMap(blocksOf)
        .filter(({ type }) => type === 'tool_result')
        .map(({ tool_use_id: id }) => id);
    },
  );
  expect(ids).toEqual(['a_b', '_', 'functions.Glob:0', 'x'.repeat(256)]);
});
