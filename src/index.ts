export {
  DuolaneError,
  type DuolaneErrorOptions,
  type ErrorCode,
  type Failure,
  RETRYABLE,
} from './errors.ts';
