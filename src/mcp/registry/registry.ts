import { DuolaneError, errorMessage, invalid, notFound } from '../../errors.ts';
import { type JsonObject, omitUndefined } from '../../json.ts';
import type { Cancellation } from '../../stream/cancellation.ts';
import type { Abortable, Items, ListOptions } from '../../stream/types.ts';
import { ChangeFeed } from '../sources/change-feed.ts';
import { errorResult } from './tool-result.ts';
import { type Emit, type LastEvent, MAX_TIMER_MS, runTool, type Runnable } from './run-tool.ts';
import {
  type SchemaResult,
  type CompiledSchema,
  compileSchema,
  describeProblems,
} from '../schema/compile-schema.ts';
import { ConcurrencySlots } from './concurrency-slots.ts';
import { toolEvents } from './tool-events.ts';
import type {
  CallOptions,
  SourceChange,
  Tool,
  ToolCall,
  ToolDefinition,
  ToolEvent,
  ToolHandler,
  ToolProblem,
  ToolRegistry,
  ToolSource,
} from '../types.ts';

/** The server information and the first tools of a registry. */
export interface RegistryOptions {
  readonly name: string;
  readonly version?: string;
  readonly instructions?: string;
  readonly tools?: readonly ToolDefinition[];
}

/**
 * Offers functions as a ToolSource. An invalid tool among `tools` does not affect the others: it is
 * omitted, listed in `problems` and reported as a process warning. `register` throws instead.
 *
 * @example
 * ```ts
 * const tools = [tool('hi', 'Greets', {}, () => 'Hello')];
 * const registry = createRegistry({ name: 'demo', tools });
 * await using offered = await offerHttp(registry);
 * ```
 */
export function createRegistry(options: RegistryOptions): ToolRegistry {
  const registry = new Registry(options);
  /** Registers a tool, or records why that is not possible. */
  for (const definition of options.tools ?? []) registry.include(definition);
  return registry;
}

/**
 * Returns the direct way into a registry, for callers that would take its stream apart again.
 * `undefined` for any other source, and for a registry whose `callTool` was replaced: the
 * replacement must not be bypassed.
 */
export const runnerOf = (source: ToolSource): Pick<Registry, 'run'> | undefined =>
  source instanceof Registry && source.callTool === Registry.prototype.callTool
    ? source
    : undefined;

/** Returns whether calls of a tool may take long, as its definition in a registry says. */
export const longOf = (source: ToolSource, name: string): boolean | 'required' =>
  source instanceof Registry && source.isLong(name);

/**
 * Returns whether a tool of a registry may run twice for one call, as its annotations say: it only
 * reads, or a repetition changes nothing more.
 */
export function repeatable(source: ToolSource, name: string): boolean {
  const hints = source instanceof Registry ? source.get(name)?.annotations : undefined;
  return hints?.['idempotentHint'] === true || hints?.['readOnlyHint'] === true;
}

interface RegisteredTool extends Runnable {
  /** The position in the list; a replaced tool keeps it. */
  readonly position: number;
  readonly tool: Tool;
  readonly schema: CompiledSchema;
  readonly long: boolean | 'required';
}

const NAME = /^[\w./-]{1,128}$/;

class Registry implements ToolRegistry {
  readonly info: ToolRegistry['info'];
  readonly #entries = new Map<string, RegisteredTool>();
  readonly #problems = new Map<string, ToolProblem>();
  readonly #changes = new ChangeFeed();
  /**
   * Sorted by position. A change creates a new array, so a list that is being read does not shift.
   */
  #sorted: readonly RegisteredTool[] | undefined;
  #lastPosition = 0;

  constructor({ name, version = '1.0.0', instructions }: RegistryOptions) {
    this.info = { name, version, ...(instructions !== undefined && { instructions }) };
  }

  get size(): number {
    return this.#entries.size;
  }

  get problems(): readonly ToolProblem[] {
    return [...this.#problems.values()];
  }

  get(name: string): Tool | undefined {
    return this.#entries.get(name)?.tool;
  }

  register(definition: ToolDefinition): void {
    const known = this.#entries.get(definition.name);
    const position = known?.position ?? this.#lastPosition + 1;
    this.#entries.set(definition.name, prepare(definition, position));
    this.#lastPosition = Math.max(this.#lastPosition, position);
    this.#problems.delete(definition.name);
    this.#changed();
  }

  include(definition: ToolDefinition): void {
    try {
      this.register(definition);
    } catch (reason) {
      const error = DuolaneError.from(reason, 'invalid');
      this.#problems.set(definition.name, { name: definition.name, error });
      process.emitWarning(
        `server "${this.info.name}": ${error.message}; the tool is omitted`,
        'Duolane',
      );
    }
  }

  unregister(name: string): boolean {
    this.#problems.delete(name);
    const known = this.#entries.delete(name);
    if (known) this.#changed();
    return known;
  }

  listTools({ after, signal }: ListOptions = {}): Items<Tool> {
    this.#sorted ??= [...this.#entries.values()];
    return toolItems(this.#sorted, after === undefined ? 0 : parsePosition(after), signal);
  }

  callTool(call: ToolCall, options?: CallOptions): AsyncIterable<ToolEvent> {
    const run = (caller: Cancellation, emit: Emit): Promise<LastEvent> =>
      this.run(call, caller, emit, options?.task);
    return toolEvents(run, call, options);
  }

  isLong(name: string): boolean | 'required' {
    return this.#entries.get(name)?.long ?? false;
  }

  /** Runs a tool without a stream of events; see `runnerOf`. */
  async run(
    call: ToolCall,
    caller: Cancellation,
    emit: Emit,
    mayBeTask = false,
  ): Promise<LastEvent> {
    const entry = this.#entries.get(call.name);
    if (!entry) throw notFound(`unknown tool "${call.name}"; list the tools for their names`);
    let checked: SchemaResult;
    try {
      const checking = entry.schema.check(call.args);
      checked = checking instanceof Promise ? await checking : checking;
    } catch (error) {
      // Code of the tool threw, such as a transform of its schema. That counts as a failed handler.
      return { type: 'result', result: errorResult(error) };
    }
    // Invalid arguments are a result, not an error (MCP 2025-11-25, tools, error handling): the
    // model reads a result and can correct its arguments, while an error ends at the client.
    // The text is that of the official SDK.
    if (!checked.ok)
      return {
        type: 'result',
        result: errorResult(
          `Invalid arguments for tool ${call.name}: ${describeProblems(checked.problems)}`,
        ),
      };
    return await runTool(entry, call, checked.value, caller, emit, mayBeTask);
  }

  listen(options?: Abortable): AsyncIterable<SourceChange> {
    return this.#changes.listen(options);
  }

  #changed(): void {
    this.#sorted = undefined;
    this.#changes.notify({ type: 'tools' });
  }
}

function parsePosition(checkpoint: string): number {
  const position = Number(checkpoint);
  if (!Number.isSafeInteger(position) || position < 0)
    throw invalid(`unknown cursor "${checkpoint}"; use one that this list returned`);
  return position;
}

/** The tools after a position, as a list whose checkpoints are positions. */
function toolItems(
  entries: readonly RegisteredTool[],
  after: number,
  signal: AbortSignal | undefined,
): Items<Tool> {
  let checkpoint: string | undefined;
  return {
    get checkpoint() {
      return checkpoint;
    },
    async *[Symbol.asyncIterator]() {
      for (let index = firstAfter(entries, after); ; index += 1) {
        signal?.throwIfAborted();
        const entry = entries[index];
        if (!entry) return;
        checkpoint = String(entry.position);
        yield entry.tool;
      }
    },
  };
}

/**
 * Finds the first entry after a position by binary search: a list that is read in pages does not
 * scan from the start for each page.
 */
function firstAfter(entries: readonly RegisteredTool[], position: number): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (entries[middle]!.position > position) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Checks a definition and compiles its schema, once for all calls. */
function prepare(definition: ToolDefinition, position: number): RegisteredTool {
  const { name, deadlineMs, concurrency, long = false } = definition;
  const fault = (reason: string, cause?: unknown): DuolaneError =>
    invalid(`invalid tool ${JSON.stringify(name)}: ${reason}`, cause);
  if (typeof name !== 'string' || !NAME.test(name))
    throw fault('expected a name of 1 to 128 letters, digits, "_", "-", "." or "/"');
  if (typeof definition.handler !== 'function') throw fault('expected a function as handler');
  if (deadlineMs !== undefined && !(deadlineMs > 0 && deadlineMs <= MAX_TIMER_MS))
    throw fault(`expected a deadlineMs above 0 and at most ${MAX_TIMER_MS}, got ${deadlineMs}`);
  if (concurrency !== undefined && !(Number.isInteger(concurrency) && concurrency > 0))
    throw fault(`expected a positive integer as concurrency, got ${concurrency}`);
  if (typeof long !== 'boolean' && long !== 'required')
    throw fault(`expected true, false or "required" as long, got ${JSON.stringify(long)}`);
  let schema: CompiledSchema;
  try {
    schema = compileSchema(definition.inputSchema);
  } catch (error) {
    throw fault(`its input schema is not usable: ${errorMessage(error)}`, error);
  }
  return {
    position,
    schema,
    long,
    tool: toTool(definition, schema.json),
    // The schema accepts the arguments before each call, so the handler gets what its type says.
    handler: definition.handler as ToolHandler<unknown>,
    ...(deadlineMs !== undefined && { deadlineMs }),
    ...(concurrency !== undefined && { slots: new ConcurrencySlots(concurrency) }),
  };
}

function toTool(definition: ToolDefinition, inputSchema: JsonObject): Tool {
  const { name, title, description, outputSchema, annotations, _meta } = definition;
  return omitUndefined<Tool>({
    name,
    title,
    description,
    inputSchema,
    outputSchema,
    annotations,
    _meta,
  });
}
