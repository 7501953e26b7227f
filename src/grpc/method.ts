import {
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { DuolaneError } from '../errors.ts';

/** How one kind of message is written and read. `decode` may throw anything: it becomes `malformed`. */
export interface Codec<T> {
  encode(message: T): Uint8Array;
  decode(bytes: Uint8Array): T;
}

/** One method of a service: `/package.Service/Method`, and its messages. It need not come from a .proto. */
export interface GrpcMethod<Request, Response> {
  readonly path: string;
  readonly request: Codec<Request>;
  readonly response: Codec<Response>;
}

/** A method as the generated code describes it: `methodOf(Health.method.check)`. */
export function methodOf<I extends DescMessage, O extends DescMessage>(
  descriptor: DescMethod & { readonly input: I; readonly output: O },
): GrpcMethod<MessageShape<I>, MessageShape<O>> {
  return {
    path: `/${descriptor.parent.typeName}/${descriptor.name}`,
    request: codecOf(descriptor.input),
    response: codecOf(descriptor.output),
  };
}

/** The messages of a generated schema; fields that it does not know are dropped on reading. */
export const codecOf = <D extends DescMessage>(schema: D): Codec<MessageShape<D>> => ({
  encode: (message) => toBinary(schema, message),
  decode: (bytes) => fromBinary(schema, bytes, { readUnknownFields: false }),
});

export function decode<T>(codec: Codec<T>, bytes: Uint8Array, path: string): T {
  try {
    return codec.decode(bytes);
  } catch (cause) {
    if (cause instanceof DuolaneError) throw cause;
    throw new DuolaneError('malformed', `a message of ${path} cannot be read`, { cause });
  }
}
