import {
  create,
  type DescMessage,
  fromBinary,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { anyPack, anyUnpack } from '@bufbuild/protobuf/wkt';
import { StatusSchema } from './gen/google/rpc/status_pb.ts';
import { GrpcStatus } from './status.ts';

const KEY = 'grpc-status-details-bin';

/** One detail of a status: a message with its schema, so that the peer knows its type. */
export interface Detail<D extends DescMessage = DescMessage> {
  readonly schema: D;
  readonly message: MessageShape<D>;
}

/** Creates a status with typed details in its trailers. Use it as the cause of a DuolaneError. */
export function detailedStatus(
  status: number,
  message: string,
  details: readonly Detail[],
): GrpcStatus {
  const packed = details.map((detail) => anyPack(detail.schema, detail.message));
  const statusMessage = create(StatusSchema, { code: status, message, details: packed });
  return new GrpcStatus(status, message, { [KEY]: toBinary(StatusSchema, statusMessage) });
}

/**
 * Returns the details of one type in a status; empty if there are none or they cannot be decoded.
 */
export function detailsIn<D extends DescMessage>(
  status: GrpcStatus | undefined,
  schema: D,
): MessageShape<D>[] {
  const bytes = status?.trailers[KEY];
  if (!(bytes instanceof Uint8Array)) return [];
  try {
    return fromBinary(StatusSchema, bytes).details.flatMap((any) => anyUnpack(any, schema) ?? []);
  } catch {
    // Details that cannot be decoded are ignored; the status itself is still valid.
    return [];
  }
}
