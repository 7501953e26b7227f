import { type Codec, type GrpcMethod, methodOf } from '../../../grpc/index.ts';
import type { JsonObject } from '../../../json.ts';
import { checkTool } from '../../registry/check-tool.ts';
import type { ToolSource } from '../../types.ts';
import { type ListRequest, Mcp } from '../gen/mcp/stream/v1/mcp_pb.ts';
import { type Layout, PROMPT, RESOURCE, RESOURCE_TEMPLATE, TOOL } from './field-layout.ts';

/** A codec for messages that are encoded and decoded elsewhere. */
const RAW: Codec<Uint8Array> = { encode: (bytes) => bytes, decode: (bytes) => bytes };

type Lists = 'listTools' | 'listResources' | 'listResourceTemplates' | 'listPrompts';

/** A list as a gRPC method. */
export interface ListMethod {
  /** The member of a source. */
  readonly list: Lists;
  /** The name of the gRPC method. */
  readonly name: string;
  readonly layout: Layout;
  readonly method: GrpcMethod<ListRequest, Uint8Array>;
  /** Throws for an invalid item. */
  readonly check?: (item: JsonObject) => void;
}

const listMethod = (list: Lists, layout: Layout): ListMethod => {
  const { name } = Mcp.method[list];
  const path = `/${Mcp.typeName}/${name}`;
  return { list, name, layout, method: { ...methodOf(Mcp.method.listTools), path, response: RAW } };
};

export const LISTS: readonly ListMethod[] = [
  { ...listMethod('listTools', TOOL), check: checkTool },
  listMethod('listResources', RESOURCE),
  listMethod('listResourceTemplates', RESOURCE_TEMPLATE),
  listMethod('listPrompts', PROMPT),
];

/** The optional members of a source, by the names of their methods. */
export const OPTIONAL: ReadonlyMap<string, keyof ToolSource> = new Map([
  [Mcp.method.listResources.name, 'listResources'],
  [Mcp.method.listResourceTemplates.name, 'listResourceTemplates'],
  [Mcp.method.listPrompts.name, 'listPrompts'],
  [Mcp.method.readResource.name, 'readResource'],
  [Mcp.method.getPrompt.name, 'getPrompt'],
  [Mcp.method.complete.name, 'complete'],
  [Mcp.method.listen.name, 'listen'],
  [Mcp.method.getTask.name, 'tasks'],
]);
