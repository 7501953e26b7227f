import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { DuolaneError, malformed } from '../../../errors.ts';
import { GrpcClient, type GrpcClientOptions, methodOf } from '../../../grpc/index.ts';
import type { JsonObject } from '../../../json.ts';
import type { Abortable, Items, ListOptions } from '../../../stream/types.ts';
import type {
  AskOptions,
  CallOptions,
  SourceListenOptions,
  SourceChange,
  Tool,
  ToolCall,
  ToolEvent,
  ToolSource,
} from '../../types.ts';
import { RequestAnswers } from '../input-required.ts';
import { joined, type ResourcePart, toPart } from '../codec/resource-chunks.ts';
import { mapErrors, fromGrpcError } from '../codec/grpc-errors.ts';
import { fromCallEvent, toCallRequest } from '../codec/call-codec.ts';
import {
  CompleteRequestSchema,
  type DiscoverResponse,
  DiscoverRequestSchema,
  GetPromptRequestSchema,
  ListenRequestSchema,
  Mcp,
  ReadResourceRequestSchema,
} from '../gen/mcp/stream/v1/mcp_pb.ts';
import { member, parseObject, toText } from '../codec/json-text.ts';
import { ListItems } from './list-items.ts';
import { LISTS } from '../codec/list-methods.ts';
import { callerMetadata, routingMetadata } from '../routing-metadata.ts';

/** The options of `dialGrpc`. */
export interface DialGrpcOptions extends Abortable, Omit<GrpcClientOptions, 'metadata'> {
  /** The address: `grpc://host:port`, or `grpcs://` for TLS. */
  readonly url: string;
  /** Sent as `authorization: Bearer <token>`; a function is called before each call. */
  readonly token?: string | (() => string | Promise<string>);
  /**
   * The size limit of one entry in `readResource`, which throws `too_large` beyond it; 64 MiB by
   * default. `streamResource` has no limit.
   */
  readonly maxResourceBytes?: number;
}

/** The options of reading a resource over gRPC; `offset` skips bytes. */
export interface GrpcReadOptions extends AskOptions {
  readonly offset?: number;
}

/** A source over gRPC. */
export interface GrpcSource extends ToolSource, AsyncDisposable {
  /**
   * Reads a resource in parts as they arrive, without joining them. Present only if the source has
   * resources.
   */
  streamResource?(uri: string, options?: GrpcReadOptions): AsyncIterable<ResourcePart>;
}

const MESSAGE_BYTES = 16 * 2 ** 20;
const RESOURCE_BYTES = 64 * 2 ** 20;

/**
 * Connects to a source over gRPC. It requests the server information first, so that a missing or
 * wrong server is reported immediately; `signal` covers only that. Later, a lost connection fails
 * its calls with `network`, and new calls connect again. Disposing cancels running calls.
 *
 * @example
 * ```ts
 * await using offered = await offerGrpc(createRegistry({ name: 'demo' }));
 * await using source = await dialGrpc({ url: offered.url });
 * ```
 */
export async function dialGrpc({
  url,
  token,
  signal,
  maxResourceBytes = RESOURCE_BYTES,
  ...options
}: DialGrpcOptions): Promise<GrpcSource> {
  const client = new GrpcClient(url, {
    maxMessageBytes: MESSAGE_BYTES,
    ...options,
    ...(token !== undefined && {
      metadata: async () => ({
        authorization: `Bearer ${typeof token === 'string' ? token : await token()}`,
      }),
    }),
  });
  try {
    const discovered = await client.unary(
      methodOf(Mcp.method.discover),
      create(DiscoverRequestSchema),
      signal ? { signal } : {},
    );
    return sourceOf(client, discovered, maxResourceBytes);
  } catch (error) {
    await client[Symbol.asyncDispose]();
    throw fromGrpcError(error);
  }
}

/** The ToolSource of a connection, with the members that the server announced. */
function sourceOf(
  client: GrpcClient,
  { name, version, instructions, methods }: DiscoverResponse,
  maxResourceBytes: number,
): GrpcSource {
  const has = new Set(methods);
  const dialled = { client, id: randomUUID() };
  const lists = LISTS.filter((list) => has.has(list.name)).map((list) => [
    list.list,
    (options?: ListOptions): Items<JsonObject> => new ListItems(client, list, options),
  ]);
  const streamResource = (uri: string, options?: GrpcReadOptions): AsyncIterable<ResourcePart> =>
    mapErrors(() => resourceParts(dialled, uri, options), fromGrpcError);
  return {
    listTools: () => none<Tool>(),
    ...(Object.fromEntries(lists) as Partial<ToolSource>),
    info: { name, version, ...member('instructions', instructions) },
    callTool: (call, options) => mapErrors(() => callTool(dialled, call, options), fromGrpcError),
    ...(has.has(Mcp.method.readResource.name) && {
      streamResource,
      readResource: (uri, options) => joined(streamResource(uri, options), maxResourceBytes),
    }),
    ...(has.has(Mcp.method.getPrompt.name) && {
      getPrompt: (prompt, args, options) => orRpcError(getPrompt(dialled, prompt, args, options)),
    }),
    ...(has.has(Mcp.method.complete.name) && {
      complete: (request, options) => orRpcError(complete(client, request, options)),
    }),
    ...(has.has(Mcp.method.listen.name) && {
      listen: (options) => mapErrors(() => listen(client, options), fromGrpcError),
    }),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

async function* none<T>(): AsyncGenerator<T, void, undefined> {}

async function orRpcError<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw fromGrpcError(error);
  }
}

/** A connection, and the id by which the server distinguishes its callers from those of others. */
interface Dialled {
  readonly client: GrpcClient;
  readonly id: string;
}

async function* callTool(
  { client, id }: Dialled,
  call: ToolCall,
  { signal, deadline, caller }: CallOptions = {},
): AsyncGenerator<ToolEvent, void, undefined> {
  const one = toCallRequest(call);
  const metadata = { ...routingMetadata('tools/call', call.name), ...callerMetadata(id, caller) };
  const options = { deadline, metadata, ...(signal && { signal }) };
  for await (const message of client.stream(methodOf(Mcp.method.callTool), { one }, options)) {
    const event = fromCallEvent(message);
    if (event) yield event;
    if (event?.type === 'result' || event?.type === 'input') return;
  }
  throw malformed(
    `the server sent no result for the call of tool "${call.name}": expected a last event`,
  );
}

async function* resourceParts(
  { client, id }: Dialled,
  uri: string,
  { ask, offset, signal, caller }: GrpcReadOptions = {},
): AsyncGenerator<ResourcePart, void, undefined> {
  const answering = new RequestAnswers(`reading resource "${uri}"`, ask);
  const metadata = { ...routingMetadata('resources/read', uri), ...callerMetadata(id, caller) };
  const options = { metadata, ...(signal && { signal }) };
  rounds: for (;;) {
    const one = create(ReadResourceRequestSchema, {
      uri,
      answers: answering.answers,
      ...(offset !== undefined && { offset: BigInt(offset) }),
    });
    const chunks = client.stream(methodOf(Mcp.method.readResource), { one }, options);
    for await (const chunk of chunks) {
      if (chunk.inputRequired) {
        await answering.answer(chunk.inputRequired, options);
        continue rounds;
      }
      yield toPart(chunk);
    }
    return;
  }
}

async function getPrompt(
  { client, id }: Dialled,
  name: string,
  args: JsonObject,
  { ask, signal, caller }: AskOptions = {},
): Promise<JsonObject> {
  const answering = new RequestAnswers(`prompt "${name}"`, ask);
  const metadata = { ...routingMetadata('prompts/get', name), ...callerMetadata(id, caller) };
  const options = { metadata, ...(signal && { signal }) };
  const argumentsJson = toText(args, 'the arguments');
  for (;;) {
    const request = { name, argumentsJson, answers: answering.answers };
    const { resultJson, inputRequired } = await client.unary(
      methodOf(Mcp.method.getPrompt),
      create(GetPromptRequestSchema, request),
      options,
    );
    if (!inputRequired) return parseObject(resultJson ?? '', 'GetPromptResponse.result_json');
    await answering.answer(inputRequired, options);
  }
}

async function complete(
  client: GrpcClient,
  request: JsonObject,
  { signal }: Abortable = {},
): Promise<JsonObject> {
  const requestJson = toText(request, 'the request');
  const { resultJson } = await client.unary(
    methodOf(Mcp.method.complete),
    create(CompleteRequestSchema, { requestJson }),
    signal ? { signal } : {},
  );
  return parseObject(resultJson, 'CompleteResponse.result_json');
}

const KINDS = ['listening', 'tools', 'resources', 'prompts', 'resource'] as const;

async function* listen(
  client: GrpcClient,
  { signal, resources = [] }: SourceListenOptions = {},
): AsyncGenerator<SourceChange, void, undefined> {
  const one = create(ListenRequestSchema, { resources: [...resources] });
  const changes = client.stream(methodOf(Mcp.method.listen), { one }, signal ? { signal } : {});
  for await (const { kind, uri } of changes) {
    const type = KINDS.find((known) => known === kind);
    if (type) yield { type, ...member('uri', uri) };
  }
  throw new DuolaneError('network', 'the server ended the stream of changes; listen again');
}
