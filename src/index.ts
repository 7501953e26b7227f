export {
  DuolaneError,
  type DuolaneErrorOptions,
  type ErrorCode,
  type Failure,
  RETRYABLE,
} from './errors.ts';
export * from './host/index.ts';
