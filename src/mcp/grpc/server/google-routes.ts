import { randomUUID } from 'node:crypto';
import { create, type DescMessage, type MessageInitShape } from '@bufbuild/protobuf';
import { DuolaneError, unsupported } from '../../../errors.ts';
import {
  type CallContext,
  type Codec,
  codecOf,
  methodOf,
  type GrpcRoute,
  serverStream,
  unary,
} from '../../../grpc/index.ts';
import { asArray, asObject, isObject, type JsonObject } from '../../../json.ts';
import type { Items, ListOptions } from '../../../stream/types.ts';
import type { ToolSource } from '../../types.ts';
import { callerOf } from '../routing-metadata.ts';
import { withGrpcStatus, toGrpcError } from '../codec/grpc-errors.ts';
import {
  type CallToolResponse,
  CallToolResponseSchema,
  type CompletionRequest,
  type CompletionResponse,
  CompletionResponseSchema,
  GetPromptResponseSchema,
  ListPromptsResponseSchema,
  ListResourcesResponseSchema,
  ListResourceTemplatesResponseSchema,
  ListToolsResponseSchema,
  Mcp,
  ReadResourceResponseSchema,
} from '../gen/model_context_protocol/mcp_pb.ts';
import {
  toGoogleContent,
  toGoogleContents,
  toGoogleMessage,
  toGooglePrompt,
  toGoogleResource,
  toGoogleTemplate,
  toGoogleTool,
} from './google-shapes.ts';

/** The limit of a list in one message; a longer list must be requested as a stream. */
const MAX_ITEMS = 10_000;
const BATCH = 32;

/** The methods of Google's service, with a source in the form that its clients expect. */
export function googleRoutes(source: ToolSource): GrpcRoute[] {
  const { method } = Mcp;
  const routes = [
    listRoute(
      method.listTools.name,
      ListToolsResponseSchema,
      source.listTools.bind(source),
      (items) => ({
        tools: items.map(toGoogleTool),
      }),
    ),
    unary(methodOf(method.callTool), ({ request }, call) =>
      withGrpcStatus(() => callTool(source, request?.name ?? '', request?.arguments ?? {}, call)),
    ),
  ];
  if (source.listResources)
    routes.push(
      listRoute(
        method.listResources.name,
        ListResourcesResponseSchema,
        source.listResources.bind(source),
        (items) => ({ resources: items.map(toGoogleResource) }),
      ),
    );
  if (source.listResourceTemplates)
    routes.push(
      listRoute(
        method.listResourceTemplates.name,
        ListResourceTemplatesResponseSchema,
        source.listResourceTemplates.bind(source),
        (items) => ({ resourceTemplates: items.map(toGoogleTemplate) }),
      ),
    );
  if (source.listPrompts)
    routes.push(
      listRoute(
        method.listPrompts.name,
        ListPromptsResponseSchema,
        source.listPrompts.bind(source),
        (items) => ({ prompts: items.map(toGooglePrompt) }),
      ),
    );
  if (source.readResource)
    routes.push(
      unary(methodOf(method.readResource), ({ uri }, call) =>
        withGrpcStatus(async () => {
          const resource = [];
          const options = { signal: call.signal, caller: callerOf(call) };
          for await (const entry of source.readResource!(uri, options))
            resource.push(toGoogleContents(entry));
          return create(ReadResourceResponseSchema, { resource });
        }),
      ),
    );
  if (source.getPrompt)
    routes.push(
      unary(methodOf(method.getPrompt), ({ name, arguments: args }, call) =>
        withGrpcStatus(async () => {
          const options = { signal: call.signal, caller: callerOf(call) };
          const { description, messages } = await source.getPrompt!(name, args, options);
          return create(GetPromptResponseSchema, {
            ...(typeof description === 'string' && { description }),
            messages: asArray(messages).map(toGoogleMessage),
          });
        }),
      ),
    );
  if (source.complete)
    routes.push(
      unary(methodOf(method.complete), (request, { signal }) =>
        withGrpcStatus(() => complete(source, request, signal)),
      ),
    );
  return routes;
}

/**
 * Lists in one message for a unary client, which would wait forever after a second one; else one
 * message per batch.
 */
function listRoute<D extends DescMessage>(
  name: string,
  schema: D,
  open: (options: ListOptions) => Items<JsonObject>,
  shape: (items: readonly JsonObject[]) => MessageInitShape<D>,
): GrpcRoute {
  const response = codecOf(schema);
  const method = { path: `/${Mcp.typeName}/${name}`, request: NOTHING, response };
  return serverStream(method, async function* (_, { signal, metadata }) {
    const streaming = metadata['mcp-stream'] === '1';
    let items: JsonObject[] = [];
    let sent = false;
    try {
      for await (const item of open({ signal })) {
        items.push(item);
        if (streaming && items.length === BATCH) {
          yield create(schema, shape(items));
          [items, sent] = [[], true];
        } else if (items.length > MAX_ITEMS)
          throw new DuolaneError(
            'too_large',
            `the list exceeds ${MAX_ITEMS} items; request a stream with the metadata mcp-stream: 1`,
          );
      }
    } catch (error) {
      throw toGrpcError(error);
    }
    if (items.length > 0 || !sent) yield create(schema, shape(items));
  });
}

/** The request of a list carries nothing that we need. */
const NOTHING: Codec<undefined> = { encode: () => new Uint8Array(), decode: () => undefined };

async function callTool(
  source: ToolSource,
  name: string,
  args: JsonObject,
  context: CallContext,
): Promise<CallToolResponse> {
  const call = { id: randomUUID(), name, args };
  const { signal, deadline } = context;
  const options = { signal, deadline, caller: callerOf(context) };
  for await (const event of source.callTool(call, options)) {
    if (event.type === 'input')
      throw unsupported(
        `tool "${name}" needs an answer; call it through the service mcp.stream.v1.Mcp`,
      );
    if (event.type !== 'result') continue;
    const { content, structuredContent, isError } = event.result;
    return create(CallToolResponseSchema, {
      content: content.map(toGoogleContent),
      isError: isError === true,
      ...(isObject(structuredContent) && { structuredContent: structuredContent as never }),
    });
  }
  throw new DuolaneError('internal', `the call of tool "${name}" ended without a result`);
}

async function complete(
  source: ToolSource,
  { resourceReference, promptReference, argument, context }: CompletionRequest,
  signal: AbortSignal,
): Promise<CompletionResponse> {
  const ref = resourceReference
    ? { type: 'ref/resource', uri: resourceReference.uri }
    : { type: 'ref/prompt', name: promptReference?.name ?? '' };
  const { completion } = await source.complete!(
    {
      ref,
      argument: { name: argument?.name ?? '', value: argument?.value ?? '' },
      ...(context && { context: { arguments: context.arguments } }),
    },
    { signal },
  );
  const { values, total, hasMore } = asObject(completion);
  return create(CompletionResponseSchema, {
    values: asArray(values).map(String),
    hasMore: hasMore === true,
    ...(Number.isSafeInteger(total) && { totalMatches: BigInt(Number(total)) }),
  });
}
