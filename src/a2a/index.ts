export {
  agentCard,
  type AgentDescription,
  type CardOptions,
  type Extension,
  type GrpcInterface,
  type SecurityScheme,
  type Skill,
} from './protocol/agent-card.ts';
export { A2AClient, type SendOptions } from './client/a2a-client.ts';
export { connectA2A, type ConnectOptions } from './client/connect-a2a.ts';
export type { ClientBinding } from './client/choose-interface.ts';
export type { A2AStream, StreamOptions } from './client/a2a-stream.ts';
export { a2aEncoder, type A2AEncoder, type TextOptions } from './protocol/stream-encoder.ts';
export { type StreamProblem, TaskFold } from './client/task-fold.ts';
export {
  RESUME_EXTENSION,
  type A2AArtifact,
  type A2AMessage,
  type A2APart,
  type A2AState,
  type A2AStatus,
  type A2ATask,
  type ArtifactUpdate,
  type PushConfig,
  type PushTarget,
  type StatusUpdate,
  type A2AStreamEvent,
  type A2ATaskPage,
  type A2ATaskQuery,
} from './protocol/model.ts';
export type { Caller } from './server/task-operations.ts';
export type { Reply } from './server/dispatch-operation.ts';
export type { PushOptions } from './push/push-configs.ts';
export { replicaFetch } from './client/replica-fetch.ts';
export { a2aServer, type A2AServer, type A2AServerOptions } from './server/a2a-server.ts';
export { type CardKey, verifyCard } from './protocol/card-signature.ts';
