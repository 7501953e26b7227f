export {
  agentCard,
  type AgentDescription,
  type CardOptions,
  type Extension,
  type GrpcInterface,
  RESUME_EXTENSION,
  type SecurityScheme,
  type Skill,
} from './protocol/agent-card.ts';
export {
  A2AClient,
  connectA2A,
  type ConnectOptions,
  type SendOptions,
} from './client/a2a-client.ts';
export type { ClientBinding } from './client/choose-interface.ts';
export type { A2AStream, StreamOptions } from './client/a2a-stream.ts';
export { a2aEncoder, type A2AEncoder, type TextOptions } from './protocol/stream-encoder.ts';
export { type StreamProblem, TaskFold } from './client/task-fold.ts';
export type {
  A2AArtifact,
  A2AMessage,
  A2APart,
  A2AState,
  A2AStatus,
  A2ATask,
  ArtifactUpdate,
  PushConfig,
  PushTarget,
  StatusUpdate,
  A2AStreamEvent,
  A2ATaskPage,
  A2ATaskQuery,
} from './protocol/model.ts';
export type { Caller } from './server/task-operations.ts';
export type { Reply } from './server/dispatch-operation.ts';
export type { PushOptions } from './push/push-configs.ts';
export { replicaFetch } from './client/replica-fetch.ts';
export { a2aServer, type A2AServer, type A2AServerOptions } from './server/a2a-server.ts';
export { type CardKey, verifyCard } from './protocol/card-signature.ts';
