import { DuolaneError } from '../../../errors.ts';
import { GrpcStatus, STATUS, STATUS_OF, statusOf } from '../../../grpc/index.ts';
import { tryParse } from '../../../json.ts';
import { RPC } from '../../../wire/json-rpc.ts';
import { fromRpcError, RPC_CODE, isWithheld, toRpcError } from '../../../wire/json-rpc-errors.ts';

const CODE = 'mcp-error-code';
const DATA = 'mcp-error-data-bin';

/**
 * The size limit of error data. In base64 and with the message, it fits into the 64 KiB of trailers
 * that Node sends.
 */
const MAX_DATA_BYTES = 24 * 1024;

/** The gRPC status for JSON-RPC codes of other peers; our own codes have their own table. */
const STATUS_OF_RPC: ReadonlyMap<number, number> = new Map([
  [RPC.parseError, STATUS.invalidArgument],
  [RPC.invalidRequest, STATUS.invalidArgument],
  [RPC.methodNotFound, STATUS.unimplemented],
  [RPC.invalidParams, STATUS.invalidArgument],
  [RPC.internalError, STATUS.internal],
  [-32000, STATUS.unavailable],
  [-32001, STATUS.deadlineExceeded],
  [-32002, STATUS.notFound],
  [-32020, STATUS.failedPrecondition],
  [-32021, STATUS.permissionDenied],
  [-32022, STATUS.failedPrecondition],
]);

/**
 * Converts any failure of a source to the status of its call; code, message and data of the error
 * are kept.
 */
export function toGrpcError(reason: unknown): DuolaneError {
  const own = DuolaneError.from(reason);
  const { error } = toRpcError(null, own);
  const ours = RPC_CODE[own.code] === error.code;
  const status = ours ? STATUS_OF[own.code] : (STATUS_OF_RPC.get(error.code) ?? STATUS.unknown);
  const trailers = {
    [CODE]: String(error.code),
    'duolane-code': own.code,
    ...dataOf(error.data),
  };
  return new DuolaneError(own.code, own.message, {
    cause: new GrpcStatus(status, error.message, trailers, !isWithheld(own)),
  });
}

/**
 * The data of an error as a trailer. Larger data is omitted, because the status itself would be
 * lost.
 */
function dataOf(data: unknown): Readonly<Record<string, Uint8Array>> {
  if (data === undefined) return {};
  const bytes = Buffer.from(JSON.stringify(data));
  return bytes.length > MAX_DATA_BYTES ? {} : { [DATA]: bytes };
}

/** Restores the error that the source threw. A failure of the connection stays as it is. */
export function fromGrpcError(reason: unknown): unknown {
  const { trailers = {}, message = '' } = statusOf(reason) ?? {};
  const code = Number(trailers[CODE]);
  if (!(reason instanceof DuolaneError) || trailers[CODE] === undefined || !Number.isInteger(code))
    return reason;
  const data = trailers[DATA];
  if (data === undefined && RPC_CODE[reason.code] === code) return reason;
  // Data that is not JSON is omitted; the error itself is kept.
  return fromRpcError({
    code,
    message,
    ...(data && { data: tryParse(Buffer.from(data).toString()) }),
  });
}

/** Yields the items of what `open` returns, and converts its errors by `convert`. */
export async function* mapErrors<T>(
  open: () => AsyncIterable<T>,
  convert: (reason: unknown) => unknown,
): AsyncGenerator<T, void, undefined> {
  try {
    for await (const item of open()) yield item;
  } catch (error) {
    throw convert(error);
  }
}
