import { type JsonObject, omitUndefined } from '../../json.ts';
import { createRegistry } from './registry.ts';
import type { ToolDefinition, ToolHandler, ToolRegistry } from '../types.ts';

/** The output type of a field's schema, by the types that Standard Schema and zod 3 carry. */
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

/**
 * The arguments that a handler gets: inferred from zod and Standard Schema, any object for JSON
 * Schema.
 */
export type ToolArgs<Schema> = Schema extends
  | { readonly '~standard': unknown }
  | { readonly _output: unknown }
  ? Output<Schema>
  : Schema[keyof Schema] extends { readonly '~standard': unknown } | { readonly _output: unknown }
    ? ShapeOutput<Schema>
    : JsonObject;

/** The optional members of a tool. */
export interface ToolExtras {
  readonly title?: string;
  /** Hints of the protocol: agents may call a tool with `readOnlyHint: true` in parallel. */
  readonly annotations?: JsonObject;
  /** Search terms for agents that search their tools. */
  readonly searchHint?: string;
  /** The agent always shows this tool to the model, without a search. */
  readonly alwaysLoad?: boolean;
  readonly outputSchema?: JsonObject;
  /** Further metadata of the tool, such as the app that shows its results (`ui.resourceUri`). */
  readonly _meta?: JsonObject;
  readonly deadlineMs?: number;
  readonly concurrency?: number;
  /** Calls may take long and become tasks; see `ToolDefinition`. */
  readonly long?: boolean | 'required';
}

/** What `tool` returns. `any` stands for any arguments, as in a list of several tools. */
// oxlint-disable-next-line typescript/no-explicit-any -- nothing else takes every handler
export interface SdkMcpToolDefinition<Schema extends object = any> extends Omit<
  ToolDefinition,
  'handler'
> {
  readonly handler: ToolHandler<IsAny<Schema> extends true ? Schema : ToolArgs<Schema>>;
}

type IsAny<T> = 0 extends 1 & T ? true : false;

/**
 * Defines a tool, in the form of the official agent SDK. `schema` is a zod 3 or 4 shape or object,
 * any Standard Schema, or JSON Schema; the handler gets arguments that the schema accepted. A
 * registry checks the definition and names an invalid tool; this function checks nothing.
 *
 * @example
 * ```ts
 * const shape = { a: z.number(), b: z.number() };
 * const add = tool('add', 'Adds numbers', shape, ({ a, b }) => `${a + b}`);
 * ```
 */
export function tool<const Schema extends object>(
  name: string,
  description: string,
  schema: Schema,
  handler: ToolHandler<ToolArgs<Schema>>,
  { searchHint, alwaysLoad, _meta: given, ...extras }: ToolExtras = {},
): SdkMcpToolDefinition<Schema> {
  const meta = omitUndefined<JsonObject>({
    ...given,
    'anthropic/searchHint': searchHint,
    'anthropic/alwaysLoad': alwaysLoad,
  });
  return {
    name,
    description,
    inputSchema: schema,
    handler,
    ...extras,
    ...(Object.keys(meta).length > 0 && { _meta: meta }),
  };
}

/** The server information and tools of `createSdkMcpServer`. */
export interface SdkMcpServerOptions {
  readonly name: string;
  readonly version?: string;
  readonly instructions?: string;
  readonly tools?: readonly ToolDefinition[];
  /** The default of `alwaysLoad` for all tools. */
  readonly alwaysLoad?: boolean;
  /** How long the agent waits for one call, in ms; no limit by default. */
  readonly timeout?: number;
}

/** A server in the process of the application, for `mcpServers` of a session. */
export interface SdkMcpServer {
  readonly type: 'sdk';
  readonly name: string;
  readonly instance: ToolRegistry;
  readonly timeout?: number;
}

/**
 * Creates a server that runs in this process, without a child process or socket. The object holds
 * no connection, so any number of sessions may use it at the same time. An invalid tool is omitted
 * and reported (see `createRegistry`).
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
