export { remote, type RemoteAgentOptions } from './remote-agent.ts';
