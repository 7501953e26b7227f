import type { AgentContext, AgentEvent, OpenCall } from '../event/types.ts';
import type { SessionOptions } from '../host/index.ts';
import { isOwnCli } from '../host/launch/cli-launch.ts';
import { parseToolName } from '../mcp/registry/tool-names.ts';
import type { ToolResult, ToolSource } from '../mcp/types.ts';
import type { ChosenSession } from './choose-cli-session.ts';
import { recordedSource } from './recorded-tools.ts';
import { callTool, resultEvent } from './shared/tool-call.ts';
import { toFailure, toolResultText } from './shared/tool-failure.ts';
import type { TranscriptCall } from './transcript-progress.ts';

/**
 * A call of an earlier run that is closed now. Without `result` its tool is not one of our sources.
 */
export interface FinishedCall {
  readonly call: OpenCall;
  readonly result?: ToolResult;
}

type Sources = ReadonlyMap<string, ToolSource>;

/** Closes the calls that an earlier run left open, for a CLI that keeps its own transcript. */
export async function* finishCalls(
  sources: Sources,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, readonly FinishedCall[], undefined> {
  const finished: FinishedCall[] = [];
  for (const call of ctx.task.calls) {
    const found = sourceOf(call, sources);
    if (!found) {
      yield interruptedEvent(call);
      finished.push({ call });
      continue;
    }
    const result = yield* callTool(found.source, { ...call, name: found.tool }, ctx);
    yield resultEvent(call, result);
    finished.push({ call, result });
  }
  return finished;
}

/**
 * Closes the calls that an earlier run left open, in the transcript and in the log. The result of
 * an in-process tool is the stored one, or that of calling it again with the same call id. A call
 * that our CLI can repeat without harm stays open for it. Any other call may have had effects, so
 * it fails as interrupted.
 *
 * Returns the calls of the log that the transcript lacks: the tool was not called, and the model
 * writes that message again.
 */
export async function* continueCalls(
  sources: Sources,
  ctx: AgentContext,
  options: SessionOptions,
  { sessionId, store, progress }: Required<ChosenSession>,
): AsyncGenerator<AgentEvent, readonly OpenCall[], undefined> {
  const lost: OpenCall[] = [];
  const inTranscript = new Set(progress.open.map(({ callId }) => callId));
  for (const call of ctx.task.calls) {
    if (inTranscript.has(call.callId)) continue;
    const block = progress.results.get(call.callId);
    // The transcript has the end of the call, and the log does not.
    if (!block) lost.push(call);
    else if (block['is_error'] === true)
      yield { type: 'tool.failed', ...ids(call), error: failureOf(block['content']) };
    else yield { type: 'tool.completed', ...ids(call), output: block['content'] };
  }
  for (const call of progress.open) {
    const { entry: _entry, ...open } = call;
    yield { type: 'tool.called', ...open };
    const stored = await store.resultOf(sessionId, call.callId);
    const found = sourceOf(call, sources);
    if (!stored && !found && isOwnCli(options) && mayRepeat(call, ctx)) continue;
    const record = (callId: string, own: ToolResult): Promise<void> =>
      store.recordResult(sessionId, callId, own);
    const result =
      stored ??
      (found
        ? yield* callTool(recordedSource(found.source, record), { ...open, name: found.tool }, ctx)
        : INTERRUPTED);
    await store.closeCall(sessionId, call, result);
    yield result === INTERRUPTED ? interruptedEvent(call) : resultEvent(call, result);
  }
  return lost;
}

const ids = ({ callId, name }: OpenCall): Pick<OpenCall, 'callId' | 'name'> => ({ callId, name });

const failureOf = (content: unknown): ReturnType<typeof toFailure> =>
  toFailure('tool', toolResultText(content) || 'the tool failed');

/** Tools of our CLI that only read. */
const READ_ONLY: ReadonlySet<string> = new Set(['Read', 'Glob', 'Grep']);

/** Whether a call only reads, or a person has decided it since: it had not started. */
const mayRepeat = ({ callId, name }: TranscriptCall, { task }: AgentContext): boolean =>
  READ_ONLY.has(name) || task.answers.some(({ id }) => id.startsWith(`${callId}/`));

/** What the model gets for a call that may have had effects, as nothing else is known of it. */
const INTERRUPTED: ToolResult = {
  content: [
    {
      type: 'text',
      text: 'The call was interrupted before it returned a result. It may have had effects.',
    },
  ],
  isError: true,
};

function sourceOf(
  { name }: Pick<OpenCall, 'name'>,
  sources: Sources,
): { readonly source: ToolSource; readonly tool: string } | undefined {
  const { server, tool } = parseToolName(name) ?? {};
  const source = server === undefined ? undefined : sources.get(server);
  return source && tool !== undefined ? { source, tool } : undefined;
}

/** The end of a call that is not known to have returned. */
export function interruptedEvent({ callId, name }: OpenCall): AgentEvent {
  const message = `the call of ${name} was interrupted before it returned a result`;
  return {
    type: 'tool.failed',
    callId,
    name,
    error: { code: 'interrupted', message, retryable: true },
  };
}
