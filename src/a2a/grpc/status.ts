import { create } from '@bufbuild/protobuf';
import { DuolaneError } from '../../errors.ts';
import { detailedStatus, detailsIn, STATUS, statusOf } from '../../grpc/index.ts';
import { ErrorInfoSchema } from '../../grpc/gen/google/rpc/error_details_pb.ts';
import type { Operation } from '../protocol/dialect.ts';
import { errorOptions, REASONS, A2AError, type A2AErrorReason } from '../protocol/a2a-errors.ts';

const DOMAIN = 'a2a-protocol.org';

/** The error that ends a gRPC call: the canonical status, with the reason in its details. */
export function toGrpcStatus(error: A2AError): DuolaneError {
  const { reason, message, code, metadata = {} } = error;
  const status = STATUS[camelCase(REASONS[reason].status)];
  const info = create(ErrorInfoSchema, { reason, domain: DOMAIN, metadata });
  const cause = detailedStatus(status, message, [{ schema: ErrorInfoSchema, message: info }]);
  // `onError` has reported an internal error already; the gRPC server would report `internal`
  // again.
  return new DuolaneError(code === 'internal' ? 'server' : code, message, { cause });
}

const camelCase = (status: string): keyof typeof STATUS =>
  status
    .toLowerCase()
    .replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase()) as keyof typeof STATUS;

/** The reason to assume for a status without details. */
const BY_STATUS: ReadonlyMap<number, A2AErrorReason> = new Map([
  [STATUS.notFound, 'TASK_NOT_FOUND'],
  [STATUS.invalidArgument, 'INVALID_PARAMS'],
  [STATUS.failedPrecondition, 'UNSUPPORTED_OPERATION'],
  [STATUS.unimplemented, 'UNSUPPORTED_OPERATION'],
]);

/**
 * Converts the error of a gRPC call to an `A2AError`; an error of the connection stays as it is.
 */
export function fromGrpcStatus(error: unknown, operation: Operation): unknown {
  const status = statusOf(error);
  if (!status) return error;
  const info = detailsIn(status, ErrorInfoSchema).find(({ domain }) => domain === DOMAIN);
  const named = info?.reason;
  const ended = operation === 'cancel' && status.status === STATUS.failedPrecondition;
  const guessed = ended ? 'TASK_NOT_CANCELABLE' : BY_STATUS.get(status.status);
  const reason = named !== undefined && named in REASONS ? (named as A2AErrorReason) : guessed;
  if (reason === undefined) return error;
  return new A2AError(reason, status.message, { cause: error, ...errorOptions(info?.metadata) });
}
