import type { GrpcMethod } from '../../../grpc/index.ts';
import { DuolaneError, malformed } from '../../../errors.ts';
import { asObject, omitUndefined, tryParse } from '../../../json.ts';
import { fromRpcError, toRpcError } from '../../../wire/json-rpc-errors.ts';

/** The metadata by which a client says that it reads errors in messages. */
export const LARGE_ERRORS = 'mcp-large-errors';

/** The tag of field 100, a string, which no message of the service has. */
const TAG = [0xa2, 0x06] as const;
/** The sizes beyond which an error does not fit into trailers. */
const MAX_MESSAGE_BYTES = 16 * 1024;
const MAX_DATA_BYTES = 24 * 1024;

/**
 * An error that is too large for trailers, as the only field of a response message: number 100,
 * with the JSON-RPC error as JSON.
 */
export class LargeError {
  readonly json: string;

  constructor(json: string) {
    this.json = json;
  }

  /** The error of the source, as an error of this process. */
  toError(): DuolaneError {
    const { code, message, data } = asObject(tryParse(this.json));
    if (typeof code !== 'number' || typeof message !== 'string')
      return malformed('the server sent an invalid error message: expected code and message');
    return fromRpcError(omitUndefined({ code, message, data }));
  }
}

/** Returns the error as a message if it does not fit into trailers. */
export function largeErrorOf(reason: unknown): LargeError | undefined {
  const { error } = toRpcError(null, DuolaneError.from(reason));
  const data = error.data === undefined ? '' : JSON.stringify(error.data);
  const fits =
    Buffer.byteLength(error.message) <= MAX_MESSAGE_BYTES &&
    Buffer.byteLength(data) <= MAX_DATA_BYTES;
  return fits ? undefined : new LargeError(JSON.stringify(error));
}

/** A method whose responses may be large errors. */
export const withLargeErrors = <I, O>({
  response,
  ...method
}: GrpcMethod<I, O>): GrpcMethod<I, O | LargeError> => ({
  ...method,
  response: {
    encode: (message) =>
      message instanceof LargeError ? encode(message) : response.encode(message),
    decode: (bytes) =>
      bytes[0] === TAG[0] && bytes[1] === TAG[1] ? decode(bytes) : response.decode(bytes),
  },
});

function encode({ json }: LargeError): Uint8Array {
  const text = Buffer.from(json);
  const length: number[] = [];
  let rest = text.length;
  for (; rest >= 0x80; rest >>>= 7) length.push((rest & 0x7f) | 0x80);
  return Buffer.concat([Buffer.from([...TAG, ...length, rest]), text]);
}

function decode(bytes: Uint8Array): LargeError {
  let at: number = TAG.length;
  while ((bytes[at] ?? 0) >= 0x80) at += 1;
  const { buffer, byteOffset, byteLength } = bytes;
  return new LargeError(Buffer.from(buffer, byteOffset, byteLength).toString('utf8', at + 1));
}
