import { DuolaneError } from '../../../errors.ts';
import { raceAbort } from '../../../stream/abort.ts';
import { reportUnexpected } from '../../../stream/report-unexpected.ts';
import type { Tool, ToolEvent, ToolResult, ToolSource } from '../../../mcp/types.ts';
import { asObject, asString, type JsonObject, omitUndefined } from '../../../json.ts';
import { SamplingBudget } from './sampling-budget.ts';
import { toOutcome } from './tool-outcome.ts';
import { type AgentTool, failedOutcome, type ToolOutcome, type ToolRun } from '../types.ts';

export type ServerStatus = 'pending' | 'connected' | 'failed' | 'disabled';

/** How to connect to a server. */
export interface ServerDialer {
  readonly transport: string;
  /** The value of `source` in `mcp_servers` and permission requests. */
  readonly source: string;
  readonly config: JsonObject;
  readonly timeoutMs?: number | undefined;
  /** The tools, if the host sent them with `initialize`. */
  readonly manifest?: { readonly info: JsonObject; readonly tools: readonly Tool[] } | undefined;
  dial(signal: AbortSignal): Promise<ToolSource & AsyncDisposable>;
}

export interface ServerEvents {
  /** Asks the user of the host a question of a tool. */
  elicit(server: string, request: JsonObject, signal: AbortSignal): Promise<JsonObject>;
  log(server: string, level: string, data: unknown): void;
}

const CONNECT_MS = 30_000;
const LIST_MS = 30_000;
/** The limits of the tools of one server. They stay in memory, and the model gets them. */
const MAX_TOOLS = 10_000;
/** The longest name of a tool that the Messages API accepts. */
const MAX_NAME = 128;
const MAX_LIST_CHARS = 16 * 1024 * 1024;

/**
 * One MCP server of a session. It may be connected, disabled, lost and connected again. `tools` are
 * those of its last list; `tools/list_changed` makes the CLI list them again. A server that does
 * not respond within 30 s, or has not listed its tools 30 s later, gets the status `failed` with an
 * error; it never fails the session.
 */
export class Server {
  readonly name: string;
  readonly dialer: ServerDialer;
  readonly sampling: SamplingBudget = new SamplingBudget();
  readonly #events: ServerEvents;
  #status: ServerStatus = 'pending';
  #error: string | undefined;
  #tools: readonly Tool[] = [];
  #info: JsonObject = {};
  #source: Promise<ToolSource & AsyncDisposable> | undefined;
  #settled: Promise<void> = Promise.resolve();
  #life = new AbortController();
  readonly #listMs: number;

  constructor(name: string, dialer: ServerDialer, events: ServerEvents, listMs: number = LIST_MS) {
    this.#listMs = listMs;
    this.name = name;
    this.dialer = dialer;
    this.#events = events;
  }

  get status(): ServerStatus {
    return this.#status;
  }

  /** Resolves when the tools are known, or the server has failed. Never rejects. */
  ready(): Promise<void> {
    return this.#settled;
  }

  connect(): void {
    this.#life = new AbortController();
    this.#status = 'pending';
    this.#error = undefined;
    const { signal } = this.#life;
    const source = this.#dial(signal);
    this.#source = source;
    const { manifest } = this.dialer;
    const listed = source.then((opened) => this.#list(opened, signal));
    const connected = listed.then(
      () => {
        if (!signal.aborted) this.#status = 'connected'; // otherwise it was disabled meanwhile
      },
      (reason: unknown) => this.#fail(reason, signal),
    );
    if (manifest) {
      // The host sent the tools with `initialize`, so the turn does not wait and no list is
      // requested. The handshake still runs in the background: it announces which requests the
      // server may send.
      this.#status = 'connected';
      this.#tools = this.#usable(manifest.tools);
      this.#info = manifest.info;
      this.#settled = Promise.resolve();
    } else this.#settled = connected.then(() => {});
  }

  /** Closes the connection. The server stays in the list with the status `disabled`. */
  async disconnect(): Promise<void> {
    this.#life.abort(new DuolaneError('closed', `MCP server "${this.name}" was disabled`));
    this.#status = 'disabled';
    this.#tools = [];
    // A failed connection has nothing to close, and its error is in the status.
    const source = await this.#source?.catch(() => undefined);
    this.#source = undefined;
    await source?.[Symbol.asyncDispose]();
  }

  tools(): AgentTool[] {
    return this.#status === 'connected' ? this.#tools.map((tool) => this.#toAgentTool(tool)) : [];
  }

  describe(): JsonObject {
    const { transport, source, config } = this.dialer;
    const isConnected = this.#status === 'connected';
    const tools = this.#tools.map(({ name, annotations }) => ({
      name,
      annotations: toAnnotations(annotations),
    }));
    return omitUndefined<JsonObject>({
      name: this.name,
      status: this.#status,
      serverInfo: isConnected ? this.#info : undefined,
      transport,
      scope: 'dynamic',
      source,
      config: transport === 'sdk' ? undefined : config,
      error: this.#error,
      tools: isConnected ? tools : undefined,
    });
  }

  async #dial(signal: AbortSignal): Promise<ToolSource & AsyncDisposable> {
    const limit = AbortSignal.timeout(CONNECT_MS);
    try {
      return await this.dialer.dial(AbortSignal.any([signal, limit]));
    } catch (reason) {
      if (limit.aborted && !signal.aborted) {
        throw new DuolaneError(
          'timeout',
          `connecting timed out after ${CONNECT_MS} ms: no response of the server`,
        );
      }
      throw reason;
    }
  }

  async #list(source: ToolSource, signal: AbortSignal): Promise<void> {
    this.#info = { name: source.info.name, version: source.info.version };
    if (!this.dialer.manifest) await this.#listOnce(source, signal);
    this.#watch(source, signal).catch(reportUnexpected);
  }

  async #listOnce(source: ToolSource, signal: AbortSignal): Promise<void> {
    const limit = AbortSignal.timeout(this.#listMs);
    const either = AbortSignal.any([signal, limit]);
    try {
      this.#tools = this.#usable(await raceAbort(collectTools(source, either), either));
    } catch (reason) {
      if (!limit.aborted || signal.aborted) throw reason;
      throw new DuolaneError(
        'timeout',
        `listing the tools timed out after ${this.#listMs} ms: the list has not ended`,
      );
    }
  }

  /**
   * The tools that a model can get. A provider refuses the complete request for one name that is
   * repeated, empty or too long, so the server would end every turn of the session.
   */
  #usable(tools: readonly Tool[]): readonly Tool[] {
    const names = new Set<string>();
    const kept = tools.filter(({ name }) => {
      const shown = this.#shownName(name);
      const isUsable = asString(name) !== '' && shown.length <= MAX_NAME && !names.has(shown);
      names.add(shown);
      return isUsable;
    });
    const omitted = tools.length - kept.length;
    if (omitted > 0)
      this.#events.log(
        this.name,
        'warning',
        `${omitted} tools are omitted: their names are repeated, empty or too long for a model`,
      );
    return kept;
  }

  /** The name of a tool for the model. */
  #shownName(tool: string): string {
    return `mcp__${this.name}__${tool}`.replace(/[^A-Za-z0-9_-]/g, '_');
  }

  async #watch(source: ToolSource, signal: AbortSignal): Promise<void> {
    try {
      for await (const { type } of source.listen?.({ signal }) ?? []) {
        if (type !== 'tools') continue;
        const listed = this.#listOnce(source, signal).catch((reason: unknown) => {
          if (signal.aborted) return;
          const why = DuolaneError.from(reason).message;
          this.#events.log(this.name, 'warning', `cannot list the changed tools: ${why}`);
        });
        this.#settled = listed;
        await listed;
      }
    } catch (reason) {
      if (!signal.aborted) this.#fail(reason, signal);
    }
  }

  #fail(reason: unknown, signal: AbortSignal): void {
    if (signal !== this.#life.signal || signal.aborted) return;
    this.#status = 'failed';
    this.#tools = [];
    this.#error = DuolaneError.from(reason).message;
  }

  #toAgentTool(tool: Tool): AgentTool {
    const { name, dialer } = this;
    const annotations = asObject(tool.annotations);
    return {
      spec: {
        name: this.#shownName(tool.name),
        description: asString(tool.description),
        // Providers require the type.
        input_schema: { ...asObject(tool.inputSchema), type: 'object' },
      },
      readOnly: annotations['readOnlyHint'] === true,
      server: {
        name,
        source: dialer.source,
        tool: tool.name,
        title: asString(tool['title'], asString(annotations['title'], tool.name)),
      },
      facts: () => ({ edit: false }),
      call: (input, run) => this.#call(tool.name, input, run),
    };
  }

  async #call(tool: string, args: JsonObject, run: ToolRun): Promise<ToolOutcome> {
    const { timeoutMs } = this.dialer;
    const limit = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs);
    const signal = limit ? AbortSignal.any([run.signal, limit]) : run.signal;
    const ended = this.sampling.begin();
    try {
      const source = await this.#source;
      if (!source)
        throw new DuolaneError(
          'closed',
          `cannot call the tool: MCP server "${this.name}" is closed`,
        );
      return toOutcome(this.name, await this.#complete(source, tool, args, { ...run, signal }));
    } catch (reason) {
      run.signal.throwIfAborted();
      if (limit?.aborted) {
        return failedOutcome(
          `MCP server "${this.name}" tool "${tool}" timed out after ${(timeoutMs ?? 0) / 1000}s`,
        );
      }
      return failedOutcome(DuolaneError.from(reason).message);
    } finally {
      ended();
    }
  }

  /** Makes the call, and repeats it with the user's answers as long as the tool asks questions. */
  async #complete(
    source: ToolSource,
    tool: string,
    args: JsonObject,
    run: ToolRun,
  ): Promise<ToolResult> {
    const { id, signal } = run;
    const base = { id, name: tool, args, meta: { 'claudecode/toolUseId': id, ...traceMeta() } };
    for (let again: JsonObject = {}; ;) {
      let last: ToolEvent | undefined;
      for await (const event of source.callTool({ ...base, ...again }, { signal })) {
        last = event;
        if (event.type === 'progress') run.progress(event);
        else if (event.type === 'log') this.#events.log(this.name, event.level, event.data);
      }
      if (last?.type === 'result') return last.result;
      if (last?.type !== 'input')
        throw new DuolaneError('malformed', 'the call ended without a result: expected one');
      const answers = [];
      for (const { id: request, message, schema } of last.requests) {
        const fields = omitUndefined({
          message: message ?? '',
          mode: 'form',
          requestedSchema: schema,
        });
        const answer = await this.#events.elicit(this.name, fields, signal);
        answers.push({ id: request, ...answer });
      }
      again = { answers, ...(last.state !== undefined && { state: last.state }) };
    }
  }
}

/** The tools of a source. Throws `too_large` beyond the limits. */
async function collectTools(source: ToolSource, signal: AbortSignal): Promise<readonly Tool[]> {
  const tools: Tool[] = [];
  let chars = 0;
  for await (const tool of source.listTools({ signal })) {
    signal.throwIfAborted();
    chars += JSON.stringify(tool).length;
    if (tools.length >= MAX_TOOLS || chars > MAX_LIST_CHARS)
      throw new DuolaneError(
        'too_large',
        `the server lists more than ${MAX_TOOLS} tools or ${MAX_LIST_CHARS} characters; offer fewer tools`,
      );
    tools.push(tool);
  }
  return tools;
}

/** The annotations of a tool without the suffix `Hint`, as hosts expect them in `mcp_status`. */
function toAnnotations(annotations: JsonObject | undefined): JsonObject {
  const { readOnlyHint, destructiveHint, openWorldHint } = asObject(annotations);
  return omitUndefined({
    readOnly: readOnlyHint === true || undefined,
    destructive: destructiveHint === true || undefined,
    openWorld: openWorldHint === true || undefined,
  });
}

/** Passes the host's trace context on to the servers. */
function traceMeta(): JsonObject {
  const { TRACEPARENT: traceparent, TRACESTATE: tracestate } = process.env;
  if (!traceparent) return {};
  return { traceparent, ...(tracestate && { tracestate }) };
}
