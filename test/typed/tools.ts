import {
  type AgentDefinition,
  createSdkMcpServer,
  type McpSdkServerConfigWithInstance,
  type McpServerConfig,
  type Options,
  query,
  type Query,
  type SdkMcpToolDefinition,
  type SdkPluginConfig,
  type SettingSource,
  tool,
} from '@anthropic-ai/claude-agent-sdk';
import { z } from 'zod';
import { z as z3 } from 'zod/v3';
import { show } from './show.ts';

const add = tool(
  'add',
  'Adds two numbers',
  { a: z.number(), b: z.number().optional(), kind: z.enum(['x', 'y']).default('x') },
  async (args) => {
    const sum: number = args.a + (args.b ?? 0);
    const kind: 'x' | 'y' = args.kind;
    return { content: [{ type: 'text', text: `${sum} ${kind}` }] };
  },
);
const older = tool(
  'older',
  'A shape of zod 3',
  { a: z3.number(), tags: z3.array(z3.string()) },
  async ({ a, tags }) => ({ content: [{ type: 'text', text: tags.join() + a.toFixed() }] }),
);
const failing = tool(
  'fail',
  'Fails',
  {},
  async () => ({ content: [{ type: 'text', text: 'bad' }], isError: true }),
  { annotations: { readOnlyHint: true, openWorldHint: false } },
);
const rich = tool(
  'rich',
  'Gives everything',
  { q: z.string().describe('q') },
  async ({ q }, extra) => {
    show(q.length, extra);
    return {
      content: [
        { type: 'image', data: 'AA==', mimeType: 'image/png' },
        { type: 'resource', resource: { uri: 'a:b', text: 'x' } },
        { type: 'resource_link', uri: 'a:b', name: 'n' },
      ],
      structuredContent: { a: 1 },
    };
  },
);
const forecast = async ({
  city,
}: {
  city: string;
}): Promise<{ content: { type: 'text'; text: string }[] }> => ({
  content: [{ type: 'text', text: city }],
});
const weather = tool('weather', 'Returns the weather', { city: z.string() }, forecast);
const byHand: SdkMcpToolDefinition = {
  name: 'by-hand',
  description: 'Made without tool()',
  inputSchema: {},
  handler: async () => ({ content: [] }),
};
// oxlint-disable-next-line typescript/no-explicit-any -- as the official documentation has it
const all: SdkMcpToolDefinition<any>[] = [add, older, failing, rich, weather, byHand];
const server: McpSdkServerConfigWithInstance = createSdkMcpServer({
  name: 'calc',
  version: '1.0.0',
  tools: all,
});

const servers: Record<string, McpServerConfig> = {
  calc: server,
  files: { command: 'npx', args: ['-y', 'files'], env: { ROOT: process.env['ROOT'] ?? '' } },
  stdio: { type: 'stdio', command: 'x' },
  sse: { type: 'sse', url: 'http://h' },
};
servers['web'] = { type: 'http', url: 'http://h', headers: { Authorization: 'x' } };
const agents: Record<string, AgentDefinition> = {
  reviewer: { description: 'Reviews', prompt: 'Review.', tools: ['Read'], model: 'sonnet' },
};
const settingSources: SettingSource[] = ['user', 'project', 'local'];
const plugins: SdkPluginConfig[] = [{ type: 'local', path: './plugin' }];

export const options: Options = {
  mcpServers: servers,
  agents,
  settingSources,
  plugins,
  allowedTools: ['mcp__calc__*'],
  disallowedTools: ['Bash'],
  tools: { type: 'preset', preset: 'claude_code' },
  systemPrompt: { type: 'preset', preset: 'claude_code', append: 'Be short.' },
  outputFormat: { type: 'json_schema', schema: z.toJSONSchema(z.object({ a: z.string() })) },
  thinking: { type: 'enabled', budgetTokens: 1000 },
  effort: 'high',
  maxBudgetUsd: 1,
  additionalDirectories: ['/x'],
  stderr: (text: string) => show(text.length),
  cwd: '/x',
  executable: 'node',
  executableArgs: ['--no-warnings'],
  extraArgs: { 'debug-to-stderr': null, level: '3' },
  fallbackModel: 'other',
  strictMcpConfig: true,
  includeHookEvents: true,
  includePartialMessages: true,
  sandbox: { enabled: true },
  settings: { model: 'other' },
  enableFileCheckpointing: true,
  forkSession: true,
  persistSession: false,
  agent: 'reviewer',
};

export const run = (): Query =>
  query({ prompt: 'x', options: { ...options, mcpServers: { calc: server }, tools: [] } });
