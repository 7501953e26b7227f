import type { Answer } from '../../ask.ts';
import { DuolaneError, malformed } from '../../errors.ts';
import type { Agent, AgentContext, AgentEvent, Part, Turn } from '../../event/types.ts';
import { asArray, asObject, asString, type JsonObject } from '../../json.ts';
import { toRpcError } from '../../wire/json-rpc-errors.ts';
import type { CallOptions, ToolCall, ToolEvent, ToolResult, ToolSource } from '../types.ts';

/** The artifacts in which a task keeps how its call ended: the log truncates any other value. */
export const RESULT = 'mcp-result';
export const FAILURE = 'mcp-error';

/** The characters of a result in one entry of the log, which has at most 1 MiB. */
const CHUNK_CHARS = 200_000;
/** The longest output that the entry of the call repeats, for readers of the log. */
const OUTPUT_CHARS = 16_000;

/** A call as the turn that starts its task. */
export const toTurnPart = ({ id, name, args, meta, answers }: ToolCall): Part => ({
  data: { id, name, args, ...(meta && { meta }), ...(answers && { answers }) },
});

/** The call of a task, from the turn that started it. */
export function callOf({
  parts: [part],
}: Turn): ToolCall & { readonly answers: readonly Answer[] } {
  const { id, name, args, meta, answers } = asObject(
    part && 'data' in part ? part.data : undefined,
  );
  if (typeof id !== 'string' || typeof name !== 'string')
    throw malformed('the task has no tool call: expected the call as its first turn');
  return {
    id,
    name,
    args: asObject(args),
    meta: asObject(meta),
    answers: asArray(answers) as Answer[],
  };
}

/** The agent that runs one call of a source as a task; its questions are those of the task. */
export const callAgent = (source: ToolSource, resumable: boolean): Agent =>
  Object.assign(
    (turn: Turn, ctx: AgentContext): AsyncGenerator<AgentEvent, void, undefined> =>
      runCall(source, turn, ctx),
    { resumable },
  );

async function* runCall(
  source: ToolSource,
  turn: Turn,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, void, undefined> {
  let call = callOf(turn);
  const { id: callId, name, args } = call;
  const { owner, task } = ctx.task;
  const options = {
    signal: ctx.signal,
    caller: owner === undefined ? `task ${task}` : `owner ${owner}`,
    deadline: deadlineOf(turn, ctx),
  };
  yield { type: 'tool.called', callId, name, args };
  try {
    for (;;) {
      const last = yield* runOnce(source, call, options);
      if (last.type === 'result') {
        yield* chunksOf(RESULT, last.result);
        yield { type: 'tool.completed', callId, name, output: shortOf(last.result) };
        return;
      }
      const { requests, state } = last;
      const asked = requests.map((request) => ctx.ask(request, { signal: ctx.signal }));
      const answers = [...call.answers, ...(await Promise.all(asked))];
      call = { ...call, answers, ...(state !== undefined && { state }) };
    }
  } catch (error) {
    // The run has to end, or is called again: that is not a failure of the call.
    const { code } = DuolaneError.from(error);
    if (!ctx.signal.aborted && code !== 'suspended')
      yield* chunksOf(FAILURE, asObject(toRpcError(null, error).error));
    throw error;
  }
}

/** Unix time in ms after which the task has expired; undefined without a limit. */
function deadlineOf(turn: Turn, { task }: AgentContext): number | undefined {
  const { ttlMs } = asObject(turn.metadata);
  return typeof ttlMs === 'number' ? task.createdAt + ttlMs : undefined;
}

async function* runOnce(
  source: ToolSource,
  call: ToolCall,
  options: CallOptions,
): AsyncGenerator<AgentEvent, Extract<ToolEvent, { type: 'result' | 'input' }>, undefined> {
  for await (const event of source.callTool(call, options)) {
    if (event.type === 'result' || event.type === 'input') return event;
    if (event.type === 'progress') yield { ...event, type: 'tool.progress', callId: call.id };
    else if (event.type === 'log') {
      const { level, data, logger } = event;
      yield { type: 'custom', name: 'mcp.log', data: { level, data, ...(logger && { logger }) } };
    }
  }
  throw new DuolaneError('internal', `the call of tool "${call.name}" ended without a result`);
}

function* chunksOf(artifactId: string, value: JsonObject): Generator<AgentEvent, void, undefined> {
  const text = JSON.stringify(value);
  for (let at = 0; at < text.length; at += CHUNK_CHARS)
    yield {
      type: 'artifact',
      artifactId,
      name: artifactId,
      parts: [{ text: text.slice(at, at + CHUNK_CHARS), mediaType: 'application/json' }],
      ...(at > 0 && { append: true }),
      last: at + CHUNK_CHARS >= text.length,
    };
}

const shortOf = (result: ToolResult): unknown => {
  const { length } = JSON.stringify(result);
  return length <= OUTPUT_CHARS ? result : `${length} characters; see the artifact ${RESULT}`;
};

/** The value that a task keeps in an artifact; undefined if it has none. */
export function readArtifact(
  artifacts: readonly { readonly artifactId: string; readonly parts: readonly Part[] }[],
  artifactId: string,
): JsonObject | undefined {
  const parts = artifacts.find((each) => each.artifactId === artifactId)?.parts;
  const text = parts?.map((part) => ('text' in part ? asString(part.text, '') : '')).join('');
  return text === undefined || text === '' ? undefined : asObject(JSON.parse(text));
}
