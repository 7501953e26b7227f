export { remote, type RemoteAgentOptions } from './remote-agent.ts';
export { remoteTools, type RemoteToolsOptions } from './remote-tools.ts';
