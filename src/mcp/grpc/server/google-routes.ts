import { randomUUID } from 'node:crypto';
import { create, type DescMessage, type MessageInitShape } from '@bufbuild/protobuf';
import { DuolaneError, unsupported, tooLarge } from '../../../errors.ts';
import {
  type CallContext,
  type Codec,
  codecOf,
  methodOf,
  type GrpcRoute,
} from '../../../grpc/index.ts';
import { asArray, asObject, isObject, type JsonObject } from '../../../json.ts';
import type { ToolSource } from '../../types.ts';
import { callerOf } from '../routing-metadata.ts';
import type { ListMethod } from '../codec/list-methods.ts';
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
import { streamRoute, unaryRoute } from './error-routes.ts';
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
    ...listRoute(source, 'listTools', ListToolsResponseSchema, (items) => ({
      tools: items.map(toGoogleTool),
    })),
    ...listRoute(source, 'listResources', ListResourcesResponseSchema, (items) => ({
      resources: items.map(toGoogleResource),
    })),
    ...listRoute(source, 'listResourceTemplates', ListResourceTemplatesResponseSchema, (items) => ({
      resourceTemplates: items.map(toGoogleTemplate),
    })),
    ...listRoute(source, 'listPrompts', ListPromptsResponseSchema, (items) => ({
      prompts: items.map(toGooglePrompt),
    })),
    unaryRoute(methodOf(method.callTool), ({ request }, call) =>
      callTool(source, request?.name ?? '', request?.arguments ?? {}, call),
    ),
  ];
  if (source.readResource)
    routes.push(
      unaryRoute(methodOf(method.readResource), async ({ uri }, call) => {
        const resource = [];
        const options = { signal: call.signal, caller: callerOf(call) };
        for await (const entry of source.readResource!(uri, options))
          resource.push(toGoogleContents(entry));
        return create(ReadResourceResponseSchema, { resource });
      }),
    );
  if (source.getPrompt)
    routes.push(
      unaryRoute(methodOf(method.getPrompt), async ({ name, arguments: args }, call) => {
        const options = { signal: call.signal, caller: callerOf(call) };
        const { description, messages } = await source.getPrompt!(name, args, options);
        return create(GetPromptResponseSchema, {
          ...(typeof description === 'string' && { description }),
          messages: asArray(messages).map(toGoogleMessage),
        });
      }),
    );
  if (source.complete)
    routes.push(
      unaryRoute(methodOf(method.complete), (request, { signal }) =>
        complete(source, request, signal),
      ),
    );
  return routes;
}

/**
 * Lists in one message for a unary client, which would wait forever after a second one; else one
 * message per batch.
 */
function listRoute<D extends DescMessage>(
  source: ToolSource,
  list: ListMethod['list'],
  schema: D,
  shape: (items: readonly JsonObject[]) => MessageInitShape<D>,
): GrpcRoute[] {
  if (!source[list]) return [];
  const path = `/${Mcp.typeName}/${Mcp.method[list].name}`;
  const method = { path, request: NOTHING, response: codecOf(schema) };
  const route = streamRoute(method, async function* (_, { signal, metadata }) {
    const streaming = metadata['mcp-stream'] === '1';
    let items: JsonObject[] = [];
    let sent = false;
    for await (const item of source[list]!({ signal })) {
      items.push(item);
      if (streaming && items.length === BATCH) {
        yield create(schema, shape(items));
        [items, sent] = [[], true];
      } else if (items.length > MAX_ITEMS)
        throw tooLarge(
          `the list exceeds ${MAX_ITEMS} items; request a stream with the metadata mcp-stream: 1`,
        );
    }
    if (items.length > 0 || !sent) yield create(schema, shape(items));
  });
  return [route];
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
