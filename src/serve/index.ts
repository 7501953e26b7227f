export type { Auth } from './guard.ts';
export type { JwtAuth } from './jwt.ts';
export type { Revocations } from './revocations.ts';
export type { ApiKeys, Secrets } from './secrets.ts';
export { openStore, serve, type Served } from './serve.ts';
export type { SessionOptions } from './session.ts';
export { toA2A, type ToA2AOptions } from './to-a2a.ts';
export type { AgentModule, GrpcOptions, ServeOptions } from './types.ts';
