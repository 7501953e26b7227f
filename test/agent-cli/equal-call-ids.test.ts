import { expect, test } from 'vitest';
import { query, createSdkMcpServer, tool } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { AGENT, Workspace } from './workspace.ts';

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
