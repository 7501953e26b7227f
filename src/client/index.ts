export { connectAgent, type HttpConnectOptions } from '../a2a/client/connect-agent.ts';
export { type A2AClient, type SendOptions } from '../a2a/client/a2a-client.ts';
export type { A2AStream, StreamOptions } from '../a2a/client/a2a-stream.ts';
export { type StreamProblem, TaskFold } from '../a2a/client/task-fold.ts';
export { questionsOf } from '../a2a/client/task-questions.ts';
export { A2AError, type A2AErrorReason } from '../a2a/protocol/a2a-errors.ts';
export type {
  A2AArtifact,
  A2AMessage,
  A2APart,
  A2AState,
  A2AStatus,
  A2AStreamEvent,
  A2ATask,
  A2ATaskPage,
  A2ATaskQuery,
  ArtifactUpdate,
  PushConfig,
  PushTarget,
  StatusUpdate,
} from '../a2a/protocol/model.ts';
export type { Answer, InputRequest } from '../ask.ts';
export { DuolaneError, type ErrorCode } from '../errors.ts';
