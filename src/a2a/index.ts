export { agentCard, type AgentDescription, type Skill } from './card.ts';
export { a2aEncoder, type A2AEncoder } from './encoder.ts';
export { encodeEvent03, encodeTask03 } from './codec-0.3.ts';
export { encodeTask } from './task.ts';
export type {
  A2AArtifact,
  A2AMessage,
  A2APart,
  A2AState,
  A2AStatus,
  A2ATask,
  ArtifactUpdate,
  StatusUpdate,
  StreamEvent,
} from './model.ts';
export { a2aServer, type A2AServer, type A2AServerOptions } from './server.ts';
