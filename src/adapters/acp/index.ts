export { acp } from './acp-agent.ts';
export type { AcpClientMethod, AcpMcpServer, AcpMethod, AcpOptions } from './acp-options.ts';
