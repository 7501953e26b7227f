import { modelError } from '../../event/retry/model-error.ts';
import type { Agent, AgentContext, AgentEvent, Part, Turn } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { approve, type Pending, questionIdByContent } from '../shared/approval.ts';
import { partText, readModel } from '../shared/framework-agent.ts';
import { SideChannel } from '../shared/side-channel.ts';
import { earlierMessages } from '../shared/earlier-messages.ts';
import { asObject, asString } from '../../json.ts';
import { parsed } from '../shared/tool-failure.ts';
import { RunReader } from './run-reader.ts';

/** The part of the streamed result of `run()` of the OpenAI Agents SDK that the adapter uses. */
export interface OpenAiStream extends AsyncIterable<unknown> {
  readonly completed: PromiseLike<unknown>;
  readonly finalOutput?: unknown;
  readonly interruptions: readonly unknown[];
  readonly state: {
    approve(interruption: never): void;
    reject(interruption: never): void;
  };
}

/** The argument of `onStream` of `agent.asTool()`, as far as the adapter uses it. */
interface OpenAiNested {
  readonly event: unknown;
  readonly toolCall?: unknown;
}

/** Starts a run: `(input, options) => run(agent, input, options)`; pass both on unchanged. */
export type OpenAiRun = (
  input: never,
  options: { readonly stream: true; readonly signal: AbortSignal },
  run: {
    readonly turn: Turn;
    readonly ctx: AgentContext;
    /** For `asTool({ onStream })`: the events of that agent join the run, with its call as path. */
    readonly onStream: (nested: OpenAiNested) => Promise<void>;
  },
) => PromiseLike<OpenAiStream>;

/**
 * Creates an agent from the OpenAI Agents SDK. A tool that needs approval becomes a question to a
 * person, and the run continues with the answer. After a restart the run starts over, and an answer
 * applies once to the same tool with the same arguments: equal calls are asked about one by one.
 * After a handoff the text of the next agent belongs to the run; the events of an agent that is
 * called as a tool join the run if it got `onStream`. Under `withRetry`, use a client with
 * `maxRetries: 0`.
 */
export function openaiAgents(start: OpenAiRun): Agent {
  return async function* (turn, ctx) {
    yield { type: 'run.started' };
    const { signal } = ctx;
    const reader = new RunReader();
    const { aside, onStream } = nestedRuns();
    const questionId = questionIdByContent(turn);
    let input: unknown = await opening(turn, ctx);
    for (;;) {
      const result = await guarded(
        start(input as never, { stream: true, signal }, { turn, ctx, onStream }),
        signal,
      );
      for await (const events of aside.with(read(result, reader, signal))) yield* events;
      if (result.interruptions.length === 0) return yield* ending(result);
      const calls = result.interruptions.map((interruption) => ({
        ...callOf(interruption),
        interruption,
      }));
      for (const { of: call, approved } of await approve(calls, ctx, { idOf: questionId })) {
        if (approved) result.state.approve(call.interruption as never);
        else {
          reader.decline(call.callId);
          result.state.reject(call.interruption as never);
        }
      }
      input = result.state;
    }
  };
}

/** Runs of agents that are called as tools; their events arrive beside the stream of the run. */
function nestedRuns(): {
  readonly aside: SideChannel<readonly AgentEvent[]>;
  readonly onStream: (nested: OpenAiNested) => Promise<void>;
} {
  const aside = new SideChannel<readonly AgentEvent[]>();
  const readers = new Map<string, RunReader>();
  const onStream = ({ event, toolCall }: OpenAiNested): Promise<void> => {
    const callId = asString(asObject(toolCall)['callId']) || 'agent';
    const reader = readers.get(callId) ?? new RunReader();
    readers.set(callId, reader);
    const events = reader.read(asObject(event));
    return aside.push(events.map((each) => ({ ...each, path: [callId] })));
  };
  return { aside, onStream };
}

async function* read(
  result: OpenAiStream,
  reader: RunReader,
  signal: AbortSignal,
): AsyncGenerator<readonly AgentEvent[], void, undefined> {
  // The iterator of an aborted run ends without an error; only this promise reports it.
  const completed = guarded(result.completed, signal);
  // Awaited below; until then a rejection must not count as unhandled.
  completed.catch(() => {});
  yield* readModel(
    () => result,
    signal,
    (event) => [reader.read(asObject(event))],
  );
  signal.throwIfAborted();
  await completed;
}

async function guarded<T>(promise: PromiseLike<T>, signal: AbortSignal): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    signal.throwIfAborted();
    throw modelError(error, 'internal');
  }
}

function* ending({ finalOutput }: OpenAiStream): Generator<AgentEvent, void, undefined> {
  if (finalOutput === undefined || typeof finalOutput === 'string') return;
  yield { type: 'run.finished', outcome: 'completed', text: '', output: finalOutput };
}

function callOf(interruption: unknown): Pending {
  const raw = asObject(asObject(interruption)['rawItem']);
  return {
    callId: asString(raw['callId']) || asString(raw['id']),
    name: asString(raw['name']),
    args: parsed(asString(raw['arguments'])),
  };
}

async function opening(turn: Turn, ctx: AgentContext): Promise<readonly JsonObject[]> {
  const before = (await earlierMessages(turn, ctx)).map(({ role, text: words }) =>
    role === 'user'
      ? { role, content: [{ type: 'input_text', text: words }] }
      : { role, status: 'completed', content: [{ type: 'output_text', text: words }] },
  );
  return [...before, { role: 'user', content: turn.parts.map(contentOf) }];
}

function contentOf(part: Part): JsonObject {
  if (!('bytes' in part)) return { type: 'input_text', text: partText(part) };
  const url = `data:${part.mediaType};base64,${Buffer.from(part.bytes).toString('base64')}`;
  return part.mediaType.startsWith('image/')
    ? { type: 'input_image', image: url }
    : { type: 'input_file', file: url, ...(part.filename && { filename: part.filename }) };
}
