import { create } from '@bufbuild/protobuf';
import { DuolaneError } from '../../../errors.ts';
import { type CallContext, methodOf, type GrpcRoute, unary } from '../../../grpc/index.ts';
import { type JsonObject, omitUndefined } from '../../../json.ts';
import type { ListOptions } from '../../../stream/types.ts';
import { parseCheckpoint } from '../../sources/checkpoint.ts';
import type { PagedItems } from '../../sources/streaming-adapter.ts';
import type { ToolSource } from '../../types.ts';
import { collectingAsk, inputRequiredAfter } from '../input-required.ts';
import { batchesOf, pageBatchesOf } from './list-batches.ts';
import { chunksOf } from '../codec/resource-chunks.ts';
import { streamRoute, unaryRoute } from './error-routes.ts';
import { fromCallRequest, toCallEvent } from '../codec/call-codec.ts';
import {
  type CallToolEvent,
  type CallToolRequest,
  ChangeSchema,
  CompleteResponseSchema,
  type DiscoverResponse,
  DiscoverResponseSchema,
  GetPromptResponseSchema,
  Mcp,
  type ReadResourceRequest,
  type ResourceChunk,
  ResourceChunkSchema,
} from '../gen/mcp/stream/v1/mcp_pb.ts';
import { parseObject } from '../codec/json-text.ts';
import { type ListMethod, LISTS, OPTIONAL } from '../codec/list-methods.ts';
import { callerOf, checkRoutingMetadata, callOwner } from '../routing-metadata.ts';
import { mayHaveTasks, taskRoutes } from './task-routes.ts';

/** The methods of the typed streaming service that a source supports. */
export function mcpRoutes(source: ToolSource): GrpcRoute[] {
  const { method } = Mcp;
  const routes = [
    unary(methodOf(method.discover), () => discover(source)),
    ...LISTS.filter(({ list }) => source[list]).map((list) => listRoute(source, list)),
    streamRoute(methodOf(method.callTool), (request, call) => callEvents(source, request, call)),
  ];
  if (source.readResource)
    routes.push(
      streamRoute(methodOf(method.readResource), (request, call) =>
        resourceChunks(source, request, call),
      ),
    );
  if (source.getPrompt)
    routes.push(
      unaryRoute(methodOf(method.getPrompt), async ({ name, argumentsJson, answers }, call) => {
        checkRoutingMetadata(call, 'prompts/get', name);
        const { signal } = call;
        const asking = collectingAsk(answers);
        const args = argumentsJson === '' ? {} : parseObject(argumentsJson, 'arguments_json');
        try {
          const options = { signal, ask: asking.ask, caller: callerOf(call) };
          const result = await source.getPrompt!(name, args, options);
          return create(GetPromptResponseSchema, { resultJson: JSON.stringify(result) });
        } catch (error) {
          const inputRequired = inputRequiredAfter(asking, error);
          return create(GetPromptResponseSchema, { inputRequired });
        }
      }),
    );
  if (source.complete)
    routes.push(
      unaryRoute(methodOf(method.complete), async ({ requestJson }, { signal }) => {
        const request = parseObject(requestJson, 'request_json');
        const resultJson = JSON.stringify(await source.complete!(request, { signal }));
        return create(CompleteResponseSchema, { resultJson });
      }),
    );
  if (source.listen)
    routes.push(
      streamRoute(methodOf(method.listen), async function* ({ resources }, { signal }) {
        const options = { signal, ...(resources.length > 0 && { resources }) };
        for await (const { type, uri } of source.listen!(options))
          yield create(ChangeSchema, omitUndefined({ kind: type, uri }));
      }),
    );
  return [...routes, ...taskRoutes(source)];
}

function discover(source: ToolSource): DiscoverResponse {
  const { name, version, instructions } = source.info;
  const optional = [...OPTIONAL].filter(([, key]) => source[key] !== undefined);
  const methods = ['Discover', 'ListTools', 'CallTool', ...optional.map(([method]) => method)];
  return create(DiscoverResponseSchema, omitUndefined({ name, version, methods, instructions }));
}

const listRoute = (source: ToolSource, { list, layout, method }: ListMethod): GrpcRoute =>
  streamRoute(method, ({ startAfter }, call) => {
    const { signal } = call;
    const items = source[list]!(omitUndefined<ListOptions>({ signal, after: startAfter }));
    // A position inside a page is reached by reading the page.
    const startsAtPage = startAfter === undefined || parseCheckpoint(startAfter)[0] === 0;
    return startsAtPage && 'pages' in items
      ? pageBatchesOf(layout, items as PagedItems<JsonObject>, () => call.delivered())
      : batchesOf(layout, items);
  });

async function* callEvents(
  source: ToolSource,
  request: CallToolRequest,
  call: CallContext,
): AsyncGenerator<CallToolEvent, void, undefined> {
  checkRoutingMetadata(call, 'tools/call', request.name);
  const { signal, deadline } = call;
  const task = request.acceptsTask === true && mayHaveTasks(source, call);
  const options = { signal, deadline, caller: callerOf(call), owner: callOwner(call), task };
  for await (const event of source.callTool(fromCallRequest(request), options)) {
    yield toCallEvent(event);
    if (event.type === 'result' || event.type === 'input' || event.type === 'task') return;
  }
  throw new DuolaneError('internal', `the call of tool "${request.name}" ended without a result`);
}

async function* resourceChunks(
  source: ToolSource,
  { uri, offset, answers }: ReadResourceRequest,
  call: CallContext,
): AsyncGenerator<ResourceChunk, void, undefined> {
  checkRoutingMetadata(call, 'resources/read', uri);
  const { signal } = call;
  const asking = collectingAsk(answers);
  const options = {
    signal,
    ask: asking.ask,
    caller: callerOf(call),
    ...(offset !== undefined && { offset: Number(offset) }),
  };
  let index = 0;
  try {
    for await (const entry of source.readResource!(uri, options)) {
      yield* chunksOf(index, entry);
      index += 1;
    }
  } catch (error) {
    if (index > 0) throw error;
    yield create(ResourceChunkSchema, { inputRequired: inputRequiredAfter(asking, error) });
  }
}
