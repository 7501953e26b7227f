import type { SessionOptions } from 'duolane/host';
import type { SdkMcpServer } from 'duolane/mcp';
import { modelOptions } from '../support/model.ts';

const SYSTEM = `You file tickets on the project board with create_ticket: one call per ticket, several at once where there are several. A person reviews each one before it is created, and may change or reject it. Tell the user what came of each, with its ID.`;

/**
 * How the agent CLI is started: no tool but ours, which is the app's own and so permitted without
 * a question. The person is asked about the ticket, not about the tool.
 */
export const sessionOptions = (cci: SdkMcpServer): SessionOptions => ({
  ...modelOptions(import.meta.url),
  systemPrompt: SYSTEM,
  tools: [],
  mcpServers: { cci },
  strictMcpConfig: true,
  allowedTools: ['mcp__cci__*'],
  settingSources: [],
});
