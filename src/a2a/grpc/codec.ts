import {
  type DescMessage,
  type DescMethod,
  type DescService,
  fromBinary,
  fromJson,
  type JsonValue,
  type Message,
  toBinary,
  toJson,
} from '@bufbuild/protobuf';
import type { Codec, GrpcMethod } from '../../grpc/index.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { METHOD_NAMES } from '../protocol/method-names.ts';
import type { Operation, Version } from '../protocol/dialect.ts';
import { A2AService as A2AService03 } from './gen/a2a/0.3/a2a_pb.ts';
import { A2AService as A2AService10 } from './gen/a2a/1.0/a2a_pb.ts';

/** A gRPC method whose messages are in the JSON form of their protobuf. */
export type JsonMethod = GrpcMethod<JsonObject, JsonObject>;

/** The service of each version; a server offers both. */
export const SERVICES: Readonly<Record<Version, DescService>> = {
  '1.0': A2AService10,
  '0.3': A2AService03,
};

const NAMES: Readonly<Record<Version, Partial<Record<Operation, string>>>> = {
  '1.0': METHOD_NAMES['1.0'],
  // Its service has no ListTasks.
  '0.3': {
    ...METHOD_NAMES['1.0'],
    subscribe: 'TaskSubscription',
    listPush: 'ListTaskPushNotificationConfig',
    extendedCard: 'GetAgentCard',
  },
};

/** The operations of a version, as methods of its service. */
export const grpcMethods = (version: Version): readonly (readonly [Operation, JsonMethod])[] =>
  Object.entries(NAMES[version]).flatMap(([operation, name]) => {
    const descriptor = SERVICES[version].methods.find((method) => method.name === name);
    return descriptor ? [[operation as Operation, jsonMethod(descriptor, version)] as const] : [];
  });

const jsonMethod = ({ parent, name, input, output }: DescMethod, version: Version): JsonMethod => ({
  path: `/${parent.typeName}/${name}`,
  // Scalars of 0.3 are never optional: an absent `blocking` means false, so it must be emitted.
  request: jsonCodec(input, version === '0.3'),
  response: jsonCodec(output, false),
});

/**
 * Converts between the JSON form of a message and its bytes; drops members that the message lacks.
 */
const jsonCodec = (schema: DescMessage, alwaysEmitImplicit: boolean): Codec<JsonObject> => ({
  encode: (json) => toBinary(schema, read(schema, json)),
  decode: (bytes) =>
    toJson(schema, fromBinary(schema, bytes, { readUnknownFields: false }), {
      alwaysEmitImplicit,
    }) as JsonObject,
});

/**
 * Parses the JSON form. A lone surrogate, valid in JSON but not in protobuf, is replaced by U+FFFD.
 */
function read(schema: DescMessage, json: JsonObject): Message {
  const options = { ignoreUnknownFields: true };
  try {
    return fromJson(schema, json as JsonValue, options);
  } catch (error) {
    const fixed = wellFormed(json);
    if (fixed === json) throw error;
    return fromJson(schema, fixed as JsonValue, options);
  }
}

/** Replaces lone surrogates by U+FFFD. */
const utf8 = (text: string): string => Buffer.from(text).toString();

/**
 * The value with well-formed strings and names; the value itself if all of them are well-formed.
 */
function wellFormed(value: unknown): unknown {
  if (typeof value === 'string') return utf8(value);
  if (Array.isArray(value)) {
    const items = value.map(wellFormed);
    return items.some((item, index) => item !== value[index]) ? items : value;
  }
  if (!isObject(value)) return value;
  const members = Object.entries(value).map(
    ([name, member]) => [utf8(name), wellFormed(member)] as const,
  );
  const changed = members.some(([name, member]) => !(name in value) || member !== value[name]);
  return changed ? Object.fromEntries(members) : value;
}
