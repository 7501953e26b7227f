export type { Answer, Ask, InputRequest } from '../ask.ts';
export { advance, needsRun, nextTurn } from './fold/advance.ts';
export { checkLaws, type CheckOptions } from './check-laws.ts';
export { isDelta, isFinal } from './fold/entry-rules.ts';
export { parseDecision } from './text/parse-decision.ts';
export { truncateEvent, ENTRY_BYTES, FRAME_BYTES } from './truncate-event.ts';
export { compareIds, type Identified, parseId, resume, withIds } from './event-id.ts';
export { decodeEntry, encodeEntry } from './entry-codec.ts';
export { normalizeAgent, type NormalizeOptions } from './run/normalize-agent.ts';
export { withRetry } from './retry/with-retry.ts';
export type { RetryPolicy } from './retry/retry-policy.ts';
export { rebaseEvents, failOpenCalls, recoverRun, CANCELED_TEXT } from './fold/recover-run.ts';
export {
  textUpdates,
  type TextUpdate,
  type TextUpdatesOptions,
  throttle,
  type ThrottleOptions,
} from './throttle.ts';
export type * from './types.ts';
export { addUsage } from './usage.ts';
