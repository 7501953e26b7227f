import type { JsonObject } from '../../json.ts';
import { createRegistry } from './registry.ts';
import type { ToolDefinition, ToolHandler, ToolRegistry } from '../types.ts';

/** What a field of a shape gives, by the types that Standard Schema and zod 3 carry. */
type Output<Schema> = Schema extends { readonly '~standard': { readonly types?: infer Types } }
  ? NonNullable<Types> extends { readonly output: infer Out }
    ? Out
    : unknown
  : Schema extends { readonly _output: infer Out }
    ? Out
    : unknown;

type Simplify<T> = { [Key in keyof T]: T[Key] };

type ShapeOutput<Shape> = Simplify<
  {
    -readonly [Key in keyof Shape as undefined extends Output<Shape[Key]> ? never : Key]: Output<
      Shape[Key]
    >;
  } & {
    -readonly [Key in keyof Shape as undefined extends Output<Shape[Key]> ? Key : never]?: Output<
      Shape[Key]
    >;
  }
>;

/** The arguments that a handler gets: inferred from zod and Standard Schema, open for JSON Schema. */
export type ToolArgs<Schema> = Schema extends
  | { readonly '~standard': unknown }
  | { readonly _output: unknown }
  ? Output<Schema>
  : Schema[keyof Schema] extends { readonly '~standard': unknown } | { readonly _output: unknown }
    ? ShapeOutput<Schema>
    : JsonObject;

export interface ToolExtras {
  readonly title?: string;
  /** Hints of the protocol: `readOnlyHint: true` lets agents call the tool in parallel. */
  readonly annotations?: JsonObject;
  /** Words by which an agent that searches its tools finds this one. */
  readonly searchHint?: string;
  /** The agent always shows this tool to the model, never behind a search. */
  readonly alwaysLoad?: boolean;
  readonly outputSchema?: JsonObject;
  readonly deadlineMs?: number;
  readonly concurrency?: number;
}

/** What `tool` makes. `any` is a tool of whatever arguments, as in a list of several. */
// oxlint-disable-next-line typescript/no-explicit-any -- nothing else takes every handler
export interface SdkMcpToolDefinition<Schema extends object = any> extends Omit<
  ToolDefinition,
  'handler'
> {
  readonly handler: ToolHandler<IsAny<Schema> extends true ? Schema : ToolArgs<Schema>>;
}

type IsAny<T> = 0 extends 1 & T ? true : false;

/**
 * A tool in the form of the official agent SDK. `schema` is a zod 3 or 4 shape or object, any
 * Standard Schema, or plain JSON Schema; the handler gets arguments that it has accepted. Nothing
 * is checked here: a registry checks, and names the tool that is wrong.
 */
export function tool<const Schema extends object>(
  name: string,
  description: string,
  schema: Schema,
  handler: ToolHandler<ToolArgs<Schema>>,
  { searchHint, alwaysLoad, ...extras }: ToolExtras = {},
): SdkMcpToolDefinition<Schema> {
  const meta = {
    ...(searchHint !== undefined && { 'anthropic/searchHint': searchHint }),
    ...(alwaysLoad !== undefined && { 'anthropic/alwaysLoad': alwaysLoad }),
  };
  return {
    name,
    description,
    inputSchema: schema,
    handler,
    ...extras,
    ...(Object.keys(meta).length > 0 && { _meta: meta }),
  };
}

export interface SdkMcpServerOptions {
  readonly name: string;
  readonly version?: string;
  readonly instructions?: string;
  readonly tools?: readonly ToolDefinition[];
  /** As `alwaysLoad` of every tool that does not say otherwise. */
  readonly alwaysLoad?: boolean;
  /** How long the agent waits for one call, in ms; none by default. */
  readonly timeout?: number;
}

/** A server in the app's own process, as `mcpServers` of a session takes it. */
export interface SdkMcpServer {
  readonly type: 'sdk';
  readonly name: string;
  readonly instance: ToolRegistry;
  readonly timeout?: number;
}

/**
 * A server that runs in this process: no child, no socket. The object holds no connection, so any
 * number of sessions may use it at once. A tool that is wrong is left out and reported (see
 * `createRegistry`); the others serve.
 */
export function createSdkMcpServer(options: SdkMcpServerOptions): SdkMcpServer {
  const { alwaysLoad, timeout, tools = [], ...rest } = options;
  const loaded =
    alwaysLoad === undefined
      ? tools
      : tools.map((definition) => ({
          ...definition,
          _meta: { 'anthropic/alwaysLoad': alwaysLoad, ...definition._meta },
        }));
  return {
    type: 'sdk',
    name: options.name,
    instance: createRegistry({ ...rest, tools: loaded }),
    ...(timeout !== undefined && { timeout }),
  };
}
