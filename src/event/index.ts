export type { SpentAnswer } from '../ask.ts';
export type { Answer, Ask, InputRequest } from '../ask.ts';
export { advance } from './fold/advance.ts';
export { checkLaws, type CheckOptions } from './check-laws.ts';
export { isDelta, isFinal } from './fold/entry-rules.ts';
export { parseDecision } from './text/parse-decision.ts';
export { compareIds, type Identified, parseId, resume, withIds } from './event-id.ts';
export { normalizeAgent, type NormalizeOptions } from './run/normalize-agent.ts';
export { withRetry } from './retry/with-retry.ts';
export type { RetryPolicy } from './retry/retry-policy.ts';
export { StepError } from './step-error.ts';
export type {
  DurableSteps,
  OpenWait,
  StepContext,
  StepMark,
  StepOptions,
  StepRecord,
  StepRetry,
  WaitForOptions,
} from './step-types.ts';
export {
  textUpdates,
  type TextUpdate,
  type TextUpdatesOptions,
  throttle,
  type ThrottleOptions,
} from './throttle.ts';
export type {
  Agent,
  AgentContext,
  BlobWriter,
  AgentEvent,
  AgentStorage,
  Artifact,
  Encoder,
  Entry,
  FinishReason,
  Frame,
  Logger,
  Note,
  OpenCall,
  Outcome,
  Part,
  SaidMessage,
  Seq,
  Snapshot,
  TaskEvent,
  TaskState,
  Turn,
  Usage,
} from './types.ts';
export { addUsage } from './usage.ts';
