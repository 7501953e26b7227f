import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
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
  reasonOf,
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

export interface RegistryOptions {
  readonly name: string;
  readonly version?: string;
  readonly instructions?: string;
  readonly tools?: readonly ToolDefinition[];
}

/**
 * Your functions as a ToolSource. A bad tool among `tools` does not take the others with it: it is
 * left out, kept in `problems` and told as a process warning; `register` throws instead.
 */
export function createRegistry(options: RegistryOptions): ToolRegistry {
  const registry = new Registry(options);
  for (const definition of options.tools ?? []) registry.include(definition);
  return registry;
}

/** Runs a tool of this process without the stream around it: see `runnerOf`. */
export interface ToolRunner {
  run(call: ToolCall, caller: Cancellation, emit: Emit): Promise<LastEvent>;
}

/**
 * The short way into a registry, for the ends that would read its stream only to take it apart. None
 * for a source of another make, nor for a registry whose `callTool` somebody has wrapped.
 */
export const runnerOf = (source: ToolSource): ToolRunner | undefined =>
  source instanceof Registry && source.callTool === Registry.prototype.callTool
    ? source
    : undefined;

interface RegisteredTool extends Runnable {
  /** Place in the list; a replaced tool keeps it. */
  readonly place: number;
  readonly tool: Tool;
  readonly schema: CompiledSchema;
}

const NAME = /^[\w./-]{1,128}$/;

class Registry implements ToolRegistry, ToolRunner {
  readonly info: ToolRegistry['info'];
  readonly #entries = new Map<string, RegisteredTool>();
  readonly #problems = new Map<string, ToolProblem>();
  readonly #changes = new ChangeFeed();
  /** By place; made anew after a change, so a list that is being read never shifts. */
  #sorted: readonly RegisteredTool[] | undefined;
  #places = 0;

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
    const place = known?.place ?? this.#places + 1;
    this.#entries.set(definition.name, prepare(definition, place));
    this.#places = Math.max(this.#places, place);
    this.#problems.delete(definition.name);
    this.#changed();
  }

  include(definition: ToolDefinition): void {
    try {
      this.register(definition);
    } catch (reason) {
      const error = DuolaneError.from(reason, 'invalid');
      this.#problems.set(definition.name, { name: definition.name, error });
      process.emitWarning(`server ${this.info.name}: ${error.message}; it is left out`, 'Duolane');
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
    return new ToolItems(this.#sorted, after === undefined ? 0 : placeOf(after), signal);
  }

  callTool(call: ToolCall, options?: CallOptions): AsyncIterable<ToolEvent> {
    return toolEvents((caller, emit) => this.run(call, caller, emit), call, options);
  }

  async run(call: ToolCall, caller: Cancellation, emit: Emit): Promise<LastEvent> {
    const entry = this.#entries.get(call.name);
    if (!entry) throw new DuolaneError('not_found', `Unknown tool: ${call.name}`);
    let checked: SchemaResult;
    try {
      const checking = entry.schema.check(call.args);
      checked = checking instanceof Promise ? await checking : checking;
    } catch (error) {
      // Code of the tool, such as a transform: it fails as a handler does.
      return { type: 'result', result: errorResult(error) };
    }
    // A result and not an error (MCP 2025-11-25, tools, error handling): the model reads a result
    // and can correct its arguments; an error ends at the client.
    if (!checked.ok)
      return {
        type: 'result',
        result: errorResult(
          `Invalid arguments for tool ${call.name}: ${describeProblems(checked.problems)}`,
        ),
      };
    return await runTool(entry, call, checked.value, caller, emit);
  }

  listen(options?: Abortable): AsyncIterable<SourceChange> {
    return this.#changes.listen(options);
  }

  #changed(): void {
    this.#sorted = undefined;
    this.#changes.tell({ type: 'tools' });
  }
}

function placeOf(checkpoint: string): number {
  const place = Number(checkpoint);
  if (!Number.isSafeInteger(place) || place < 0)
    throw new DuolaneError('invalid', `Unknown cursor: ${checkpoint}`);
  return place;
}

class ToolItems implements Items<Tool> {
  checkpoint: string | undefined;
  readonly #entries: readonly RegisteredTool[];
  readonly #after: number;
  readonly #signal: AbortSignal | undefined;

  constructor(entries: readonly RegisteredTool[], after: number, signal: AbortSignal | undefined) {
    this.#entries = entries;
    this.#after = after;
    this.#signal = signal;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Tool, void, undefined> {
    for (let index = firstAfter(this.#entries, this.#after); ; index += 1) {
      this.#signal?.throwIfAborted();
      const entry = this.#entries[index];
      if (!entry) return;
      this.checkpoint = String(entry.place);
      yield entry.tool;
    }
  }
}

/** Binary search: a list read in pages must not walk from the start for each. */
function firstAfter(entries: readonly RegisteredTool[], place: number): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (entries[middle]!.place > place) high = middle;
    else low = middle + 1;
  }
  return low;
}

function prepare(definition: ToolDefinition, place: number): RegisteredTool {
  const { name, deadlineMs, concurrency } = definition;
  const fault = (reason: string, cause?: unknown): DuolaneError =>
    new DuolaneError('invalid', `tool ${JSON.stringify(name)}: ${reason}`, { cause });
  if (typeof name !== 'string' || !NAME.test(name))
    throw fault('its name must be 1 to 128 letters, digits or _ - . /');
  if (typeof definition.handler !== 'function') throw fault('its handler is not a function');
  if (deadlineMs !== undefined && !(deadlineMs > 0 && deadlineMs <= MAX_TIMER_MS))
    throw fault(`deadlineMs must be positive and at most ${MAX_TIMER_MS}, got ${deadlineMs}`);
  if (concurrency !== undefined && !(Number.isInteger(concurrency) && concurrency > 0))
    throw fault(`concurrency must be a positive whole number, got ${concurrency}`);
  let schema: CompiledSchema;
  try {
    schema = compileSchema(definition.inputSchema);
  } catch (error) {
    throw fault(`bad input schema: ${reasonOf(error)}`, error);
  }
  return {
    place,
    schema,
    tool: toTool(definition, schema.json),
    // Checked against the schema before each call, so the handler gets what its type says.
    handler: definition.handler as ToolHandler<unknown>,
    ...(deadlineMs !== undefined && { deadlineMs }),
    ...(concurrency !== undefined && { slots: new ConcurrencySlots(concurrency) }),
  };
}

function toTool(definition: ToolDefinition, inputSchema: JsonObject): Tool {
  const { name, title, description, outputSchema, annotations, _meta } = definition;
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    inputSchema,
    ...(outputSchema !== undefined && { outputSchema }),
    ...(annotations !== undefined && { annotations }),
    ...(_meta !== undefined && { _meta }),
  };
}
