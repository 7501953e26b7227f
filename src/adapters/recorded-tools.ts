import type { SessionOptions } from '../host/index.ts';
import { parseMcpServers } from '../host/options/mcp-servers-option.ts';
import { toToolSource } from '../host/options/to-tool-source.ts';
import type { JsonObject } from '../json.ts';
import type { CallOptions, ToolCall, ToolEvent, ToolResult, ToolSource } from '../mcp/types.ts';

/** The servers in this process, by name. */
export async function inProcessSources(
  options: SessionOptions,
): Promise<ReadonlyMap<string, ToolSource>> {
  const { sdk } = parseMcpServers(options);
  const sources = sdk.map(
    async ({ name, instance }) => [name, await toToolSource(instance)] as const,
  );
  return new Map(await Promise.all(sources));
}

/** Stores what is known of a call before anything follows from it. */
export interface CallRecorder {
  /** Results of an earlier run, by call; each is returned once, instead of calling the tool. */
  readonly known?: Map<string, ToolResult>;
  /** Resolves when readers have got the call. */
  readonly before?: (callId: string) => Promise<void>;
  /** Before the tool is called. */
  readonly start?: (callId: string, args: JsonObject) => Promise<void>;
  /** Before the CLI gets the result. */
  readonly result: (callId: string, result: ToolResult) => Promise<void>;
}

/** The option `mcpServers` with in-process servers whose calls are recorded. */
export function recordedServers(
  options: SessionOptions,
  sources: ReadonlyMap<string, ToolSource>,
  record: CallRecorder,
): SessionOptions {
  if (sources.size === 0) return {};
  const { process, sdk } = parseMcpServers(options);
  const recorded = sdk.map(({ name, timeout }) => {
    const instance = recordedSource(sources.get(name) as ToolSource, record);
    return [
      name,
      { type: 'sdk' as const, name, instance, ...(timeout !== undefined && { timeout }) },
    ] as const;
  });
  return { mcpServers: { ...process, ...Object.fromEntries(recorded) } };
}

/** The source with another `callTool`. Its other members keep the source as their `this`. */
export function recordedSource(source: ToolSource, record: CallRecorder): ToolSource {
  const callTool = async function* (
    call: ToolCall,
    options?: CallOptions,
  ): AsyncGenerator<ToolEvent, void, undefined> {
    const known = record.known?.get(call.id);
    if (known) {
      record.known?.delete(call.id);
      yield { type: 'result', result: known };
      return;
    }
    await record.before?.(call.id);
    await record.start?.(call.id, call.args);
    for await (const event of source.callTool(call, options)) {
      // The result of a call that was stopped says that it was stopped: it must be called again.
      const isOwn = event.type === 'result' && !options?.signal?.aborted;
      if (isOwn) await record.result(call.id, event.result);
      yield event;
    }
  };
  return new Proxy(source, {
    get(target, name) {
      if (name === 'callTool') return callTool;
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}
