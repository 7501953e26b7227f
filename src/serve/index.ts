export { openStore, serve, type Served } from './serve.ts';
export type { AgentModule, ServeOptions } from './types.ts';
