import {
  type McpServerStatus,
  type ModelInfo,
  type Options,
  type PermissionMode,
  query,
  type Query,
  type SDKUserMessage,
  type SlashCommand,
} from '@anthropic-ai/claude-agent-sdk';
import { show } from './show.ts';

async function* prompts(): AsyncGenerator<SDKUserMessage> {
  yield {
    type: 'user',
    message: { role: 'user', content: 'Look at this' },
    parent_tool_use_id: null,
    session_id: '',
  };
  yield {
    type: 'user',
    message: {
      role: 'user',
      content: [
        { type: 'text', text: 'and this' },
        {
          type: 'image',
          source: { type: 'base64', media_type: 'image/png', data: 'AA==' },
        },
      ],
    },
    parent_tool_use_id: null,
  };
}

/** Options that are assembled step by step. */
function optionsFor(session: string | undefined, verbose: boolean): Options {
  const options: Options = { allowedTools: ['Read'], abortController: new AbortController() };
  options.maxTurns = 10;
  options.allowedTools?.push('Grep');
  options.env = { ...process.env, LEVEL: verbose ? 'debug' : undefined };
  options.mcpServers = {};
  options.mcpServers['files'] = { command: 'npx', args: ['-y', 'files'], env: { ROOT: '/' } };
  if (session !== undefined) options.resume = session;
  return options;
}

export async function control(mode: PermissionMode): Promise<void> {
  const options = optionsFor('s', true);
  const run: Query = query({ prompt: prompts(), options });
  for await (const message of run) if (message.type === 'result') break;
  options.abortController?.abort();
  await run.interrupt();
  await run.setModel('other');
  await run.setModel();
  await run.setPermissionMode(mode);
  await run.setMaxThinkingTokens(null);
  const commands: SlashCommand[] = await run.supportedCommands();
  const models: ModelInfo[] = await run.supportedModels();
  const servers: McpServerStatus[] = await run.mcpServerStatus();
  show(commands.map(({ name, description, argumentHint }) => name + description + argumentHint));
  show(models.map(({ value, displayName, description }) => value + displayName + description));
  for (const { name, status, error, serverInfo, tools } of servers)
    if (status === 'failed') show(name, error, serverInfo?.version, tools?.length);
  const { email, organization, subscriptionType } = await run.accountInfo();
  const initialized = await run.initializationResult();
  show(email, organization, subscriptionType, initialized.commands.length, initialized.models);
  show(initialized.output_style, initialized.available_output_styles.join());
  for (const agent of await run.supportedAgents()) show(agent.name, agent.description);
  const { added, removed, errors } = await run.setMcpServers({
    web: { type: 'http', url: 'http://h' },
  });
  show(added.join(), removed.join(), Object.keys(errors));
  const { totalTokens, categories } = await run.getContextUsage();
  show(
    totalTokens.toFixed(),
    categories.map(({ name, tokens }) => name + tokens.toFixed()),
  );
  const { canRewind, filesChanged = [] } = await run.rewindFiles('uuid', { dryRun: true });
  show(canRewind, filesChanged.join());
  await run.streamInput(prompts());
  await run.stopTask('task');
  await run.toggleMcpServer('files', false);
  await run.reconnectMcpServer('files');
  await run.applyFlagSettings({ model: 'other' });
  run.close();
}
