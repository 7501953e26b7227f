import {
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { DuolaneError, malformed } from '../errors.ts';

/** Encodes and decodes one kind of message. An error that `decode` throws becomes `malformed`. */
export interface Codec<T> {
  encode(message: T): Uint8Array;
  decode(bytes: Uint8Array): T;
}

/**
 * One method of a service: its path `/package.Service/Method` and its codecs. It need not come from
 * a .proto file.
 */
export interface GrpcMethod<Request, Response> {
  readonly path: string;
  readonly request: Codec<Request>;
  readonly response: Codec<Response>;
}

/** A method from generated code: `methodOf(Health.method.check)`. */
export function methodOf<I extends DescMessage, O extends DescMessage>(
  descriptor: DescMethod & { readonly input: I; readonly output: O },
): GrpcMethod<MessageShape<I>, MessageShape<O>> {
  return {
    path: `/${descriptor.parent.typeName}/${descriptor.name}`,
    request: codecOf(descriptor.input),
    response: codecOf(descriptor.output),
  };
}

/** The codec of a generated schema; unknown fields are dropped on decoding. */
export const codecOf = <D extends DescMessage>(schema: D): Codec<MessageShape<D>> => ({
  encode: (message) => toBinary(schema, message),
  decode: (bytes) => fromBinary(schema, bytes, { readUnknownFields: false }),
});

export function decode<T>(codec: Codec<T>, bytes: Uint8Array, path: string): T {
  try {
    return codec.decode(bytes);
  } catch (cause) {
    if (cause instanceof DuolaneError) throw cause;
    throw malformed(
      `the peer sent a message of ${path} that cannot be decoded: expected the message type of the method`,
      cause,
    );
  }
}
