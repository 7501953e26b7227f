import { randomUUID } from 'node:crypto';
import { connectA2A } from '../../a2a/client/a2a-client.ts';
import type { Ask, InputRequest } from '../../ask.ts';
import { DuolaneError, notFound } from '../../errors.ts';
import { safeLogger } from '../../event/safe-logger.ts';
import type { AgentStorage, Logger, Turn } from '../../event/types.ts';
import {
  asObject,
  asObjects,
  asString,
  asStrings,
  isObject,
  type JsonObject,
  tryParse,
} from '../../json.ts';
import { createRegistry } from '../../mcp/registry/registry.ts';
import type { Emit, LastEvent } from '../../mcp/registry/run-tool.ts';
import { toolEvents } from '../../mcp/registry/tool-events.ts';
import type { ToolCall, ToolDefinition, ToolSource } from '../../mcp/types.ts';
import { onAbort } from '../../stream/abort.ts';
import { processWarnings } from '../../task/process-warnings.ts';
import { CallResult } from './call-result.ts';
import { nextHop } from './hops.ts';
import { addressOf, type RemoteContext, RemoteCall } from './remote-agent.ts';
import type { RemoteAgentOptions } from './remote-agent.ts';

/** Options of `remoteTools`. */
export interface RemoteToolsOptions extends RemoteAgentOptions {
  /** Ends the request for the card. */
  readonly signal?: AbortSignal;
  /** Where a remote task that could not be canceled is reported; process warnings by default. */
  readonly logger?: Logger;
}

/** What a call that waits for answers keeps: its name for the remote agent, and its storage. */
interface CallMemory {
  readonly run: string;
  readonly values: JsonObject;
}

/**
 * An agent on another server as tools, one for each of its skills, for every adapter and agent CLI.
 * A call sends a message and returns the text and artifacts of the remote task. Status messages are
 * progress, text is sent while it is written, a question of the agent is a question of the tool,
 * and the answer goes to the same remote task. A call that is canceled or abandoned cancels the
 * remote task. Each call is a new conversation with the remote agent.
 *
 * A call that is made again without answers (its process ended, and the caller repeats it) is a new
 * remote task: ids of calls are not unique, so they cannot name one.
 *
 * @param address the URL of the agent or of its card, or the card itself
 *
 * @example
 * ```ts
 * const pharmacist = await remoteTools('https://pharmacist.example.com');
 * const agent = cli({ mcpServers: { pharmacist }, allowedTools: ['mcp__pharmacist__*'] });
 * ```
 */
export async function remoteTools(
  address: string | JsonObject,
  options: RemoteToolsOptions = {},
): Promise<ToolSource> {
  const { signal, logger: given, ...rest } = options;
  // The address of the card decides which hosts are trusted; calls then use the card.
  const { card } = await (async () => {
    await using client = await connectA2A(address, { ...rest, ...(signal && { signal }) });
    return client;
  })();
  const logger = safeLogger(given, processWarnings);
  const skills = skillsOf(card);
  const registry = createRegistry({
    name: toName(asString(card['name'], 'agent')),
    version: asString(card['version'], '0'),
    tools: [...skills.values()],
  });

  const run = async (call: ToolCall, signalOfCall: AbortSignal, emit: Emit): Promise<LastEvent> => {
    if (!skills.has(call.name))
      throw notFound(`unknown tool "${call.name}"; list the tools for their names`);
    const problem = problemOf(call.args);
    if (problem !== undefined) return failed(`Error: ${problem}`);
    const memory = memoryOf(call.state);
    const values = new Map(Object.entries(memory.values));
    const asked = new Map<string, InputRequest>();
    // However the call ends early, it has no reader for the remote task any more.
    const stopped = new AbortController();
    const stop = (cause: unknown): void =>
      stopped.abort(new DuolaneError('canceled', 'the call has ended early', { cause }));
    const unfollow = onAbort(signalOfCall, stop);
    const ctx: RemoteContext = {
      signal: stopped.signal,
      ask: askOnce(call, asked),
      storage: storageOf(values),
      logger,
      task: { text: '', artifacts: [] },
      history: async function* () {},
    };
    const result = new CallResult();
    let failure: unknown;
    try {
      const metadata = nextHop(call.meta, addressOf(card), rest.maxHops);
      const headers = { ...rest.headers, ...traceOf(call.meta) };
      await using client = await connectA2A(card, { ...rest, headers, signal: ctx.signal });
      const turn = turnOf(call, memory.run);
      for await (const event of new RemoteCall(client, turn, ctx, rest).run({
        ...metadata,
        'duolane.skill': call.name,
      })) {
        if (ctx.signal.aborted) continue;
        try {
          const shown = result.receive(event);
          if (shown) await emit(shown);
        } catch (error) {
          failure = error;
          stop(error);
        }
      }
      return { type: 'result', result: result.result };
    } catch (error) {
      signalOfCall.throwIfAborted();
      const { code, message } = DuolaneError.from(failure ?? error);
      if (code !== 'suspended') return failed(`Error: ${message}`);
      const state: CallMemory = { run: memory.run, values: Object.fromEntries(values) };
      return { type: 'input', requests: [...asked.values()], state: JSON.stringify(state) };
    } finally {
      unfollow();
    }
  };

  return {
    info: registry.info,
    listTools: (list) => registry.listTools(list),
    callTool: (call, callOptions) =>
      toolEvents((caller, emit) => run(call, caller.signal, emit), call, callOptions),
  };
}

const failed = (text: string): LastEvent => ({
  type: 'result',
  result: { content: [{ type: 'text', text }], isError: true },
});

/** The tools by name. An agent without skills is one tool. */
function skillsOf(card: JsonObject): ReadonlyMap<string, ToolDefinition> {
  const listed = asObjects(card['skills']);
  const skills = listed.length > 0 ? listed : [{ ...card, id: card['name'] }];
  const tools = new Map<string, ToolDefinition>();
  for (const skill of skills.slice(0, MAX_SKILLS)) {
    const base = toName(asString(skill['id'], asString(skill['name'], 'agent')));
    let name = base;
    for (let n = 2; tools.has(name); n++) name = `${base.slice(0, MAX_NAME - 4)}_${n}`;
    const examples = asStrings(skill['examples']).slice(0, 3);
    const description = [
      asString(skill['description'], asString(card['description'])),
      ...examples.map((example) => `Example: ${example}`),
    ].join('\n');
    tools.set(name, {
      name,
      title: asString(skill['name'], name),
      description: description.slice(0, MAX_DESCRIPTION),
      inputSchema: INPUT,
      handler: () => {
        throw new DuolaneError('unsupported', 'calls are sent by the source itself');
      },
    });
  }
  return tools;
}

/** A card comes from outside, and models read all of their tools. */
const MAX_SKILLS = 100;
const MAX_DESCRIPTION = 2000;
/** Providers accept 64 characters with the prefix of the server. */
const MAX_NAME = 40;

const INPUT: JsonObject = {
  type: 'object',
  properties: {
    message: { type: 'string', description: 'what the agent is asked, with all it needs to know' },
    data: { description: 'JSON for the agent, if its description asks for it' },
  },
  required: ['message'],
  additionalProperties: false,
};

const toName = (text: string): string =>
  text.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, MAX_NAME) || 'agent';

function problemOf(args: JsonObject): string | undefined {
  const unknown = Object.keys(args).find((name) => name !== 'message' && name !== 'data');
  if (unknown !== undefined) return `unknown argument "${unknown}"; expected "message" and "data"`;
  const { message } = args;
  return typeof message === 'string' && message !== ''
    ? undefined
    : 'missing argument "message": expected a text';
}

function turnOf({ id, args: { message, data } }: ToolCall, run: string): Turn {
  return {
    agent: 'remote',
    task: run,
    context: run,
    messageId: id,
    parts: [{ text: asString(message) }, ...(data === undefined ? [] : [{ data }])],
  };
}

/** Answers what the caller has answers to; any other question ends the call until it has. */
function askOnce({ answers = [] }: ToolCall, asked: Map<string, InputRequest>): Ask {
  return async (request) => {
    const answer = answers.find(({ id }) => id === request.id);
    if (answer) return answer;
    asked.set(request.id, request);
    throw new DuolaneError('suspended', 'the call waits for an answer');
  };
}

const storageOf = (values: Map<string, unknown>): AgentStorage => ({
  async set(changes) {
    for (const [key, value] of Object.entries(changes)) values.set(key, value);
  },
  async *list(prefix) {
    for (const entry of values) if (entry[0].startsWith(prefix ?? '')) yield entry;
  },
});

/** The state comes back from the client, through a signature where the client is not trusted. */
function memoryOf(state: string | undefined): CallMemory {
  if (state === undefined) return { run: randomUUID(), values: {} };
  const { run, values } = asObject(tryParse(state));
  if (typeof run === 'string' && isObject(values)) return { run, values };
  throw new DuolaneError('invalid', 'invalid state of a call: expected the state of its questions');
}

function traceOf(meta: JsonObject | undefined): Readonly<Record<string, string>> {
  const { traceparent, tracestate } = asObject(meta);
  return {
    ...(typeof traceparent === 'string' && { traceparent }),
    ...(typeof tracestate === 'string' && { tracestate }),
  };
}
