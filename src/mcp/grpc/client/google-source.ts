import { create, type DescMessage, type MessageInitShape } from '@bufbuild/protobuf';
import { malformed, tooLarge } from '../../../errors.ts';
import {
  type GrpcCallOptions,
  type GrpcClient,
  type GrpcMethod,
  methodOf,
  STATUS,
  statusOf,
} from '../../../grpc/index.ts';
import { asObject, jsonChars, type JsonObject, omitUndefined } from '../../../json.ts';
import type { Abortable, Items, ListOptions } from '../../../stream/types.ts';
import {
  type KnownLimits,
  NO_LIMITS,
  streamWithinLimits,
  withinLimits,
} from '../../sources/request-timer.ts';
import type { CallOptions, Tool, ToolCall, ToolEvent } from '../../types.ts';
import { fromGrpcError, mapErrors } from '../codec/grpc-errors.ts';
import {
  CallToolRequestSchema,
  CompletionRequestSchema,
  GetPromptRequestSchema,
  Mcp,
  ReadResourceRequestSchema,
} from '../gen/model_context_protocol/mcp_pb.ts';
import {
  fromGoogleContent,
  fromGoogleContents,
  fromGoogleMessage,
  fromGooglePrompt,
  fromGoogleResource,
  fromGoogleTemplate,
  fromGoogleTool,
} from './google-items.ts';
import type { GrpcSource } from './dial-grpc.ts';

const { method } = Mcp;

/** The limit for a result that a server sends in several messages: that of a line or an event. */
const MAX_RESULT_CHARS = 64 << 20;
/** What a block takes beside its members: without it, empty blocks would have no limit. */
const BLOCK_CHARS = 100;

/**
 * The source of a server that has only Google's service `model_context_protocol.Mcp`. That service
 * has no progress, questions, names and versions. A method that the server does not implement is an
 * empty list.
 */
export function googleSource(client: GrpcClient, limits: KnownLimits, name: string): GrpcSource {
  const once = async <T>(
    what: string,
    given: Abortable | undefined,
    run: (options: GrpcCallOptions) => Promise<T>,
  ): Promise<T> => {
    try {
      const { timeoutMs } = limits;
      const each = { timeoutMs, maxTotalMs: Infinity };
      return await withinLimits(each, { what }, given?.signal, (signal) => run({ signal }));
    } catch (error) {
      throw fromGrpcError(error);
    }
  };
  /**
   * A server of our own sends a list in several messages if the client accepts it; a unary server
   * sends one.
   */
  const list = <O, T extends JsonObject>(
    of: DescMessage,
    to: GrpcMethod<never, O>,
    itemsOf: (response: O) => readonly T[],
    options?: ListOptions,
  ): Items<T> => ({
    checkpoint: undefined,
    [Symbol.asyncIterator]: () =>
      mapErrors(async function* () {
        const each = { ...limits, maxTotalMs: Infinity };
        const metadata = { 'mcp-stream': '1' };
        const pages = streamWithinLimits(each, `list of ${name}`, options?.signal, (signal) =>
          client.stream(to, { one: create(of) as never }, { signal, metadata }),
        );
        try {
          for await (const page of pages) yield* itemsOf(page);
        } catch (error) {
          if (statusOf(error)?.status !== STATUS.unimplemented) throw error;
        }
      }, fromGrpcError),
  });
  return {
    info: { name, version: '' },
    listTools: (options) =>
      list<{ tools: Parameters<typeof fromGoogleTool>[0][] }, Tool>(
        method.listTools.input,
        methodOf(method.listTools) as never,
        ({ tools }) => tools.map(fromGoogleTool),
        options,
      ),
    listResources: (options) =>
      list<{ resources: Parameters<typeof fromGoogleResource>[0][] }, JsonObject>(
        method.listResources.input,
        methodOf(method.listResources) as never,
        ({ resources }) => resources.map(fromGoogleResource),
        options,
      ),
    listResourceTemplates: (options) =>
      list<{ resourceTemplates: Parameters<typeof fromGoogleTemplate>[0][] }, JsonObject>(
        method.listResourceTemplates.input,
        methodOf(method.listResourceTemplates) as never,
        ({ resourceTemplates }) => resourceTemplates.map(fromGoogleTemplate),
        options,
      ),
    listPrompts: (options) =>
      list<{ prompts: Parameters<typeof fromGooglePrompt>[0][] }, JsonObject>(
        method.listPrompts.input,
        methodOf(method.listPrompts) as never,
        ({ prompts }) => prompts.map(fromGooglePrompt),
        options,
      ),
    callTool: (call, options) =>
      mapErrors(() => callTool(client, limits, call, options), fromGrpcError),
    async *readResource(uri, options) {
      const request = create(ReadResourceRequestSchema, { uri });
      const { resource } = await once(`reading resource "${uri}"`, options, (within) =>
        client.unary(methodOf(method.readResource), request, within),
      );
      yield* resource.map(fromGoogleContents);
    },
    async getPrompt(prompt, args, options) {
      const texts = Object.entries(args).map(([key, value]) => [key, String(value)]);
      const request = create(GetPromptRequestSchema, {
        name: prompt,
        arguments: Object.fromEntries(texts) as Record<string, string>,
      });
      const { description, messages } = await once(`prompt "${prompt}"`, options, (within) =>
        client.unary(methodOf(method.getPrompt), request, within),
      );
      return omitUndefined<JsonObject>({
        description: description || undefined,
        messages: messages.map(fromGoogleMessage),
      });
    },
    async complete(request, options) {
      const message = create(CompletionRequestSchema, toCompletion(request));
      const { values, totalMatches, hasMore } = await once('completion', options, (within) =>
        client.unary(methodOf(method.complete), message, within),
      );
      const total = totalMatches > 0n ? Number(totalMatches) : undefined;
      return { completion: omitUndefined<JsonObject>({ values, total, hasMore }) };
    },
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

function toCompletion(request: JsonObject): MessageInitShape<typeof CompletionRequestSchema> {
  const ref = asObject(request['ref']);
  const argument = asObject(request['argument']);
  const given = Object.entries(asObject(asObject(request['context'])['arguments']));
  return {
    ...(ref['type'] === 'ref/resource'
      ? { resourceReference: { uri: String(ref['uri']) } }
      : { promptReference: { name: String(ref['name']) } }),
    argument: { name: String(argument['name']), value: String(argument['value']) },
    context: {
      arguments: Object.fromEntries(given.map(([key, value]) => [key, String(value)])),
    },
  };
}

/** A server may send the result in several messages; their content is joined. */
async function* callTool(
  client: GrpcClient,
  limits: KnownLimits,
  { name, args }: ToolCall,
  { signal: given, deadline }: CallOptions = {},
): AsyncGenerator<ToolEvent, void, undefined> {
  const one = create(CallToolRequestSchema, { request: { name, arguments: args as never } });
  const responses = streamWithinLimits(
    deadline === undefined ? limits : NO_LIMITS,
    `call of tool "${name}"`,
    given,
    (signal) =>
      client.stream(
        methodOf(method.callTool),
        { one },
        omitUndefined<GrpcCallOptions>({ signal, deadline }),
      ),
  );
  const content: JsonObject[] = [];
  let structuredContent: JsonObject | undefined;
  let [isError, isAnswered, chars] = [false, false, 0];
  for await (const response of responses) {
    isAnswered = true;
    // One by one: the arguments of a call are limited, the blocks of a message are not.
    for (const block of response.content) {
      const decoded = fromGoogleContent(block);
      chars += BLOCK_CHARS + jsonChars(decoded);
      if (chars > MAX_RESULT_CHARS)
        throw tooLarge(
          `the result of tool "${name}" exceeds the limit (${MAX_RESULT_CHARS} characters, ${BLOCK_CHARS} for each block)`,
        );
      content.push(decoded);
    }
    structuredContent = response.structuredContent ?? structuredContent;
    isError ||= response.isError;
  }
  if (!isAnswered)
    throw malformed(`the server sent no result for the call of tool "${name}": expected one`);
  yield {
    type: 'result',
    result: omitUndefined({ content, structuredContent, isError: isError || undefined }),
  };
}
