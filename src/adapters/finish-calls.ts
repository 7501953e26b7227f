import { approvedArgs, type InputRequest } from '../ask.ts';
import { answerBelongsTo } from '../event/fold/entry-rules.ts';
import { mayBeTruncated } from '../event/truncate-event.ts';
import type { AgentContext, AgentEvent, OpenCall } from '../event/types.ts';
import type { SessionOptions } from '../host/index.ts';
import { isOwnCli } from '../host/launch/cli-launch.ts';
import { asObject, type JsonObject, omitUndefined } from '../json.ts';
import { parseToolName } from '../mcp/registry/tool-names.ts';
import type { ToolResult, ToolSource } from '../mcp/types.ts';
import { isAllowedByOptions } from './allowed-by-options.ts';
import type { ChosenSession } from './choose-cli-session.ts';
import { recordedSource } from './recorded-tools.ts';
import { callTool, resultEvent, resultText } from './shared/tool-call.ts';
import { toFailure, toolResultText } from './shared/tool-failure.ts';
import { OUTPUT_TOOL, type TranscriptCall } from './transcript-progress.ts';

/**
 * A call of an earlier run that is closed now. Without `result` it did not run here, and `why` is
 * for the model.
 */
interface FinishedCall {
  readonly call: OpenCall;
  readonly result?: ToolResult;
  readonly why?: string;
  readonly approved?: boolean;
}

type Sources = ReadonlyMap<string, ToolSource>;

/**
 * Closes the calls that an earlier run left open, for a CLI that keeps its own transcript, and
 * returns the message with their results. Calls that the CLI repeats (`repeats`) stay open: it asks
 * for their permission again, and the log has the answer.
 */
export async function* finishCalls(
  sources: Sources,
  ctx: AgentContext,
  options: SessionOptions,
  repeats: boolean,
): AsyncGenerator<AgentEvent, JsonObject, undefined> {
  const content: JsonObject[] = [];
  for (const call of ctx.task.calls) {
    const found = call.partial ? undefined : sourceOf(call, sources);
    if (found && repeats) continue;
    const decision = decisionAbout(call, ctx, options);
    if (found && decision.allowed) {
      const known = { ...call, args: decision.args, name: found.tool };
      const result = yield* callTool(found.source, known, ctx, ctx.task.answers);
      yield resultEvent(call, result);
      content.push({ type: 'text', text: resultAsText({ call, result }) });
      continue;
    }
    const { why } = decision;
    yield why === undefined ? interruptedEvent(call) : refusedEvent(call, why);
    content.push({
      type: 'text',
      text: resultAsText(omitUndefined<FinishedCall>({ call, why, approved: decision.allowed })),
    });
  }
  return { type: 'user', message: { role: 'user', content } };
}

/**
 * Closes the calls that an earlier run left open, in the transcript and in the log. The result of
 * an in-process tool is the stored one, or that of calling it again with the same call id. A call
 * that our CLI can repeat without harm stays open for it, with its stored result in `known`. Any
 * other call may have had effects, so it fails as interrupted.
 *
 * Returns the calls of the log that the transcript lacks: the tool was not called, and the model
 * writes that message again.
 */
export async function* continueCalls(
  sources: Sources,
  ctx: AgentContext,
  options: SessionOptions,
  { sessionId, store, progress }: Required<ChosenSession>,
  known: Map<string, ToolResult>,
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
    else {
      const output = progress.outputs.get(call.callId) ?? block['content'];
      yield { type: 'tool.completed', ...ids(call), output };
    }
  }
  for (const call of progress.open) {
    const { entry: _entry, ...open } = call;
    yield { type: 'tool.called', ...open };
    const stored = await store.resultOf(sessionId, call.callId);
    const found = sourceOf(call, sources);
    // Our CLI makes the call itself: its rules and hooks decide, and the log has the answers. A
    // stored result is given to it then, so that it writes it as it writes any other.
    const mayHaveRun = !found && (await store.isPermitted(sessionId, call.callId));
    if (isOwnCli(options) && (found || (!stored && mayRepeat(call, ctx, mayHaveRun)))) {
      if (stored) known.set(call.callId, stored);
      continue;
    }
    const logged = decisionAbout(open, ctx, options);
    // Without a decision in the log, a rule has allowed the call if the CLI has made it. One that
    // waited behind another call is made if no rule but those of the options can decide it.
    const isUndecided = !logged.allowed && logged.why === undefined;
    const started = isUndecided ? await store.startOf(sessionId, call.callId) : undefined;
    const isFree = isUndecided && found !== undefined && isAllowedByOptions(call.name, options);
    const args = started ?? (isFree ? open.args : undefined);
    const decision: LoggedDecision = args === undefined ? logged : { allowed: true, args };
    if (!stored && !decision.allowed) {
      const { why } = decision;
      // The start of a call of our own tools is stored before it is made. No rule of the CLI has
      // decided about this one, so it must not run here.
      const unknown = found ? NOT_MADE : INTERRUPTED;
      await store.closeCall(sessionId, call, why === undefined ? unknown : refused(why));
      yield why === undefined ? interruptedEvent(call) : refusedEvent(call, why);
      continue;
    }
    const recordResult = (callId: string, own: ToolResult): Promise<void> =>
      store.recordResult(sessionId, callId, own);
    const made = decision.allowed ? decision.args : open.args;
    const result =
      stored ??
      (found
        ? yield* callTool(
            recordedSource(found.source, { result: recordResult }),
            { ...open, args: made, name: found.tool },
            ctx,
            ctx.task.answers,
          )
        : INTERRUPTED);
    await store.closeCall(sessionId, call, result);
    yield result === INTERRUPTED ? interruptedEvent(call) : resultEvent(call, result);
  }
  return lost;
}

const ids = ({ callId, name }: OpenCall): Pick<OpenCall, 'callId' | 'name'> => ({ callId, name });

const failureOf = (content: unknown): ReturnType<typeof toFailure> =>
  toFailure('tool', toolResultText(content) || 'the tool failed');

/** Tools of our CLI that have no effects. */
const WITHOUT_EFFECTS: ReadonlySet<string> = new Set(['Read', 'Glob', 'Grep', OUTPUT_TOOL]);

/**
 * Whether a call has no effects, or has not started: a person has decided it, and the CLI did not
 * get to know that.
 */
const mayRepeat = (
  { callId, name }: TranscriptCall,
  { task }: AgentContext,
  mayHaveRun: boolean,
): boolean =>
  WITHOUT_EFFECTS.has(name) ||
  (!mayHaveRun &&
    task.answers.some((answer) => answerBelongsTo(answer, task.answered ?? [], callId)));

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

/** What the model gets for a call of one of our own tools that waited behind another one. */
const NOT_MADE: ToolResult = {
  content: [
    { type: 'text', text: 'The call was not made, and had no effects. Call it again if needed.' },
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

/** The end of a call that must not run. */
const refusedEvent = ({ callId, name }: OpenCall, why: string): AgentEvent => ({
  type: 'tool.failed',
  callId,
  name,
  error: { code: 'tool', message: `the call of ${name} ${why}`, retryable: false },
});

/** What the model gets for a call that must not run. */
const refused = (why: string): ToolResult => ({
  content: [{ type: 'text', text: `The call did not run: it ${why}.` }],
  isError: true,
});

/** What the log says about an open call: whether it was allowed, and with which arguments. */
type LoggedDecision =
  | { readonly allowed: true; readonly args: unknown; readonly why?: undefined }
  | { readonly allowed: false; readonly why?: string };

const TOO_LARGE: LoggedDecision = { allowed: false, why: 'was too large to be repeated' };

/**
 * Reads the decision about an open call from the questions of the log. A call that has asked a
 * question of its own was allowed, since it ran. Otherwise a person must have allowed it: a call
 * without any question may have waited behind another one, and no rule has decided about it yet.
 */
function decisionAbout(
  { callId, name, args }: OpenCall,
  { task: { answers, answered = [], pending } }: AgentContext,
  { approvalEdits = true }: SessionOptions,
): LoggedDecision {
  // Only questions that name the call: the model chooses call ids, and a tool server some of the
  // ids of its questions, so a prefix proves nothing.
  const asked = [...answered, ...pending].filter((request) => request.callId === callId);
  const isPermission = ({ id, data }: InputRequest): boolean =>
    id.startsWith(`${callId}/permission`) && asObject(data)['toolName'] === name;
  if (asked.some((request) => !isPermission(request)))
    return mayBeTruncated(args) ? TOO_LARGE : { allowed: true, args };
  const question = asked.findLast(isPermission);
  const answer = answers.find(({ id }) => id === question?.id);
  if (!question || !answer) return { allowed: false };
  if (answer.action !== 'accept') {
    const reason = typeof answer.content === 'string' ? `: ${answer.content}` : '';
    return { allowed: false, why: `was declined by a person${reason}` };
  }
  const approved = approvedArgs(answer.content, asObject(question.data), 'input');
  // The log has only a part of the arguments: the person was asked about other ones.
  if (mayBeTruncated(approved?.args)) return TOO_LARGE;
  if (!approved) return { allowed: false, why: 'was approved with an invalid change' };
  if (!approved.changed || approvalEdits) return { allowed: true, args: approved.args };
  return { allowed: false, why: 'was approved with changes, which are not accepted' };
}

function resultAsText({ call, result, why, approved }: FinishedCall): string {
  const { callId, name } = call;
  if (result)
    return `The call ${name} (${callId}) has now ${result.isError ? 'failed' : 'finished'}:\n${resultText(result)}`;
  if (why !== undefined) return `The call ${name} (${callId}) did not run: it ${why}.`;
  const since = approved ? ' and has been approved since' : '';
  return `${name} was interrupted${since}. Call it again if it is still needed.`;
}
