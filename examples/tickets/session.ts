import type { SessionOptions } from 'duolane/host';
import type { SdkMcpServer } from 'duolane/mcp';
import { modelOptions } from '../support/model.ts';

const SYSTEM = `You file tickets on the project board with create_ticket: one call per ticket, all of them in one message. A person reviews each one before it is created, and may change or reject it. Report the result of each to the user, with its ID.`;

/**
 * Options of the agent CLI: our tool is the only one and is allowed without a question. The person
 * decides about the ticket, not about the tool.
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
