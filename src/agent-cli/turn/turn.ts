import { randomUUID } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import { apiMessage } from './message-builder.ts';
import { type CallEnd, runToolCall } from './run-tool-call.ts';
import { initMessage, resultMessage, recordSyntheticMessage, userLine } from './sdk-messages.ts';
import { modelError } from '../../event/retry/model-error.ts';
import { type Block, blocksOf, blocksText } from '../models/types.ts';
import type { Prompt } from '../session/prompt-queue.ts';
import { asArray, asObject, asString, type JsonObject } from '../../json.ts';
import type { CliSession } from '../session/cli-session.ts';
import { errorName, ModelStep } from './model-step.ts';
import { ENFORCE, MAX_FAILURES, STRUCTURED_OUTPUT } from '../tools/structured-output.ts';
import { Schedule } from '../tools/call-schedule.ts';
import type { AgentTool } from '../tools/types.ts';
import {
  callsIn,
  type TurnEnding,
  type TurnInterrupted,
  sumUsage,
  type TurnState,
} from './turn-state.ts';
import { raceAbort } from '../../stream/abort.ts';

const INTERRUPTED = '[Request interrupted by user for tool use]';

/**
 * Runs one turn, from the prompts that start it to its `result` line, which it returns. Never
 * rejects: a failure is an ending of the turn.
 */
export async function runTurn(session: CliSession, turn: TurnState): Promise<JsonObject> {
  let ending: TurnEnding;
  try {
    ending = await runTurnSteps(session, turn);
    await session.parts.transcript.saved();
  } catch (reason) {
    ending = await failed(session, turn, reason);
  }
  const { totals } = session;
  totals.usage = sumUsage(totals.usage, turn.usage);
  totals.costUsd += turn.costUsd;
  totals.apiMs += turn.apiMs;
  const result = resultMessage(session, turn, ending);
  totals.results++;
  session.emit(result);
  return result;
}

async function runTurnSteps(session: CliSession, turn: TurnState): Promise<TurnEnding> {
  if (session.refusal !== undefined) return blockedByHook(session.refusal);
  // A turn without prompts continues one of an earlier process, whose hooks have run.
  const isContinued = turn.prompts.length === 0;
  const blocked = isContinued ? undefined : await submit(session, turn, turn.prompts);
  if (turn.blockedBy !== undefined) return blockedByHook(turn.blockedBy);
  // A server that connects slowly must not delay an interrupt.
  await raceAbort(session.prepare(), turn.signal);
  session.emit(initMessage(session));
  session.writeNotices();
  if (blocked !== undefined) {
    emitBlocked(session, blocked);
    return succeeded('hook_stopped');
  }
  await finishOpenCalls(session, turn);
  for (const prompt of turn.prompts) recordPrompt(session, prompt);
  if (!isContinued && turn.prompts.every(({ query }) => !query)) return succeeded('completed');
  let earlier = isContinued ? takeOver(session, turn) : undefined;
  let stopHookActive = false;
  for (;;) {
    let step = earlier;
    earlier = undefined;
    if (!step) {
      turn.signal.throwIfAborted();
      const limit = overLimit(session, turn);
      if (limit) return limit;
      step = await runModelStep(session, turn);
    }
    await session.parts.transcript.saved();
    if (turn.interrupted) {
      if (turn.interrupted.by === 'user') recordSyntheticMessage(session, turn, INTERRUPTED);
      return interruptedEnding(turn.interrupted, 'aborted_tools', turn.lastText);
    }
    if (turn.blockedBy !== undefined) return blockedByHook(turn.blockedBy);
    if (turn.structured) {
      const { value } = turn.structured;
      return { ...succeeded('completed', JSON.stringify(value)), structured: value };
    }
    if (turn.stoppedBy !== undefined) return succeeded('hook_stopped');
    if (turn.structuredFailures >= MAX_FAILURES) return noStructuredOutput(turn);
    if (step.hasCalls) {
      for (const prompt of session.parts.queue.takeForRunning()) await join(session, turn, prompt);
      if (turn.blockedBy !== undefined) return blockedByHook(turn.blockedBy);
    } else if (session.schema) {
      turn.structuredFailures++;
      if (turn.structuredFailures >= MAX_FAILURES) return noStructuredOutput(turn);
      recordSyntheticMessage(session, turn, ENFORCE, { isSynthetic: true });
    } else {
      const again = await stopHook(session, turn, stopHookActive);
      if (turn.blockedBy !== undefined) return blockedByHook(turn.blockedBy);
      if (turn.stoppedBy !== undefined || again === undefined)
        return succeeded('completed', step.text || turn.lastText);
      stopHookActive = true;
      recordSyntheticMessage(session, turn, `Stop hook feedback:\n${again}`, { isSynthetic: true });
    }
  }
}

const succeeded = (reason: string, text = ''): TurnEnding => ({ subtype: 'success', reason, text });

const failedEnding = (reason: string, why: string): TurnEnding => ({
  subtype: 'error_during_execution',
  reason,
  errors: [why],
});

/** The ending after a failed hook whose failure blocks: an error, without another model call. */
const blockedByHook = (why: string): TurnEnding => failedEnding('hook_stopped', why);

/** An urgent message ends a turn without an error: the next turn continues it. */
const interruptedEnding = (
  { by, message }: TurnInterrupted,
  reason: string,
  text: string,
): TurnEnding => (by === 'now' ? succeeded(reason, text) : failedEnding(reason, message));

/** A model message whose calls have their results. */
interface FinishedStep {
  readonly text: string;
  readonly hasCalls: boolean;
}

/**
 * Takes over what an earlier process has done of a turn. Returns its last model message if that
 * process ended before it had decided how to go on after it.
 */
function takeOver(session: CliSession, turn: TurnState): FinishedStep | undefined {
  const { steps, endsWithStep } = session.parts.history.unfinishedTurn();
  const last = steps.at(-1);
  const finished = last && {
    text: blocksText(last.blocks),
    hasCalls: callsIn(last.blocks).length > 0,
  };
  turn.steps = steps.length;
  turn.lastText = finished?.text ?? '';
  turn.structured = last?.output;
  turn.userLines = 0;
  turn.structuredFailures = 0;
  for (const step of steps) {
    const calls = callsIn(step.blocks);
    turn.userLines += calls.length;
    // The last message is counted when the loop handles it.
    if (calls.length === 0 && session.schema && !(endsWithStep && step === last))
      turn.structuredFailures++;
    for (const call of calls.filter(({ name }) => name === STRUCTURED_OUTPUT)) {
      const result = step.results.get(asString(call['id']));
      if (result?.['is_error'] !== true) continue;
      turn.structuredFailures++;
      turn.lastStructuredError = asString(result['content']);
    }
  }
  return endsWithStep || turn.structured ? finished : undefined;
}

/** One model call and the tool calls of its message. */
async function runModelStep(session: CliSession, turn: TurnState): Promise<FinishedStep> {
  await raceAbort(session.parts.servers.ready(), turn.signal);
  const tools = new Map(session.tools().map((tool) => [tool.spec.name, tool]));
  const schedule = new Schedule();
  const ends: { readonly call: Block; readonly end: CallEnd }[] = [];
  const onCall = (call: Block): void => {
    const tool = tools.get(asString(call['name']));
    const run = async (): Promise<void> => {
      const end = await runToolCall(session, turn, call, tool);
      if (!end) return;
      ends.push({ call, end });
      recordToolResult(session, turn, call, end);
    };
    schedule.add(run, { parallel: tool?.readOnly ?? true });
  };
  try {
    const step = new ModelStep(session, turn, {
      tools,
      onCall,
      onWithdraw: () => schedule.drop(),
      callsBegun: () => schedule.started > 0,
    });
    const answer = await step.run();
    schedule.release();
    await schedule.idle();
    const batch = callsIn(answer.blocks);
    if (batch.length > 0 && !turn.signal.aborted) await afterBatch(session, turn, ends);
    return { text: blocksText(answer.blocks), hasCalls: batch.length > 0 };
  } catch (reason) {
    // Wait for the results of all calls before the turn ends. After an abort they come immediately.
    if (turn.signal.aborted) {
      schedule.release();
      await schedule.idle();
    }
    throw reason;
  }
}

function recordToolResult(
  session: CliSession,
  turn: TurnState,
  call: Block,
  { result, raw, meta, context }: CallEnd,
): void {
  const extra = { tool_use_result: raw, tool_result_meta: [meta] };
  const isOutput = call['name'] === STRUCTURED_OUTPUT;
  session.record([result], {
    toHost: userLine([result], extra),
    ...(isOutput && result['is_error'] !== true && { extra: { structured_output: raw } }),
  });
  turn.userLines++;
  for (const text of context) addContext(session, text);
  if (!isOutput) return;
  if (result['is_error'] === true) {
    turn.structuredFailures++;
    turn.lastStructuredError = asString(result['content']);
  } else turn.structured ??= { value: raw };
}

/** Adds a text of a hook for the model; the host does not get it as a message. */
function addContext(session: CliSession, text: string): void {
  session.record([{ type: 'text', text: `<system-reminder>\n${text}\n</system-reminder>` }], {
    extra: { isMeta: true },
  });
}

async function afterBatch(
  session: CliSession,
  turn: TurnState,
  ends: readonly { readonly call: Block; readonly end: CallEnd }[],
): Promise<void> {
  const tool_calls = ends.map(({ call, end }) => ({
    tool_name: call['name'],
    tool_input: call['input'],
    tool_use_id: call['id'],
    tool_response: end.result['content'],
  }));
  const options = { signal: turn.signal, toolUseId: `hook-${randomUUID()}` };
  const hook = await session.parts.hooks.fire('PostToolBatch', { tool_calls }, options);
  turn.stoppedBy ??= hook.stop;
  turn.blockedBy ??= hook.unanswered;
  for (const text of hook.context) addContext(session, text);
}

/**
 * Adds a prompt to the running turn. Its UserPromptSubmit hooks are called like those of the first.
 */
async function join(session: CliSession, turn: TurnState, prompt: Prompt): Promise<void> {
  turn.prompts.push(prompt);
  if (prompt.uuid)
    session.emit({ type: 'command_lifecycle', command_uuid: prompt.uuid, state: 'started' });
  const blocked = await submit(session, turn, [prompt]);
  if (turn.blockedBy !== undefined) return;
  if (blocked === undefined) recordPrompt(session, prompt);
  else emitBlocked(session, blocked);
}

const emitBlocked = (session: CliSession, why: string): void =>
  session.emitInfo(`The prompt was blocked by a hook: ${why}`);

/** Calls the UserPromptSubmit hooks. Returns the reason, if one of them blocks the prompts. */
async function submit(
  session: CliSession,
  turn: TurnState,
  prompts: readonly Prompt[],
): Promise<string | undefined> {
  const prompt = prompts.map(({ content }) => blocksText(content)).join('\n');
  const options = { signal: turn.signal, toolUseId: randomUUID() };
  const hook = await session.parts.hooks.fire('UserPromptSubmit', { prompt }, options);
  turn.blockedBy ??= hook.unanswered;
  if (hook.decision === 'deny') return hook.reason || 'no reason given';
  if (hook.stop !== undefined) return hook.stop;
  for (const text of hook.context) addContext(session, text);
  return undefined;
}

function recordPrompt(session: CliSession, { content, uuid }: Prompt): void {
  const blocks = blocksOf(content);
  const { replayUserMessages } = session.parts.flags;
  const toHost = replayUserMessages ? userLine(blocks, { isReplay: true }) : undefined;
  session.record(blocks, { toHost, uuid });
}

/**
 * Repeats the open calls of a resumed session under their ids, so that a wait for a person survives
 * the process. Calls with a `tool_result` in the host's message are not repeated.
 */
async function finishOpenCalls(session: CliSession, turn: TurnState): Promise<void> {
  const answered = new Set(
    turn.prompts
      .flatMap(({ content }) => asArray(content))
      .map((block) => asObject(block))
      .filter((block) => block['type'] === 'tool_result')
      .map((block) => asString(block['tool_use_id'])),
  );
  const open = session.parts.history
    .openCalls()
    .filter((call) => !answered.has(asString(call['id'])));
  if (open.length === 0) return;
  const tools = new Map<string, AgentTool>(session.tools().map((tool) => [tool.spec.name, tool]));
  for (const call of open) {
    const end = await runToolCall(session, turn, call, tools.get(asString(call['name'])));
    if (end) recordToolResult(session, turn, call, end);
  }
}

/** Calls the Stop hooks. Returns the feedback, if one of them makes the model continue. */
async function stopHook(
  session: CliSession,
  turn: TurnState,
  active: boolean,
): Promise<string | undefined> {
  const input = { stop_hook_active: active, last_assistant_message: turn.lastText };
  const hook = await session.parts.hooks.fire('Stop', input, {
    signal: turn.signal,
    toolUseId: randomUUID(),
  });
  turn.stoppedBy ??= hook.stop;
  turn.blockedBy ??= hook.unanswered;
  return hook.decision === 'deny' ? hook.reason || 'Go on.' : undefined;
}

/** The ending of the turn, if `--max-turns` or `--max-budget-usd` is reached. */
function overLimit(session: CliSession, turn: TurnState): TurnEnding | undefined {
  const { maxTurns, maxBudgetUsd } = session.parts.flags;
  if (maxTurns !== undefined && turn.steps >= maxTurns) {
    const errors = [`Reached maximum number of turns (${maxTurns})`];
    return { subtype: 'error_max_turns', reason: 'max_turns', errors };
  }
  if (
    maxBudgetUsd !== undefined &&
    session.totals.costUsd + turn.costUsd >= maxBudgetUsd &&
    turn.costUsd > 0
  ) {
    const errors = [`Reached maximum budget ($${maxBudgetUsd})`];
    return { subtype: 'error_max_budget_usd', reason: 'max_budget_usd', errors };
  }
  return undefined;
}

const noStructuredOutput = (turn: TurnState): TurnEnding => ({
  subtype: 'error_max_structured_output_retries',
  reason: 'structured_output_retry_exhausted',
  errors: [
    `No valid structured output after ${MAX_FAILURES} attempts${turn.lastStructuredError ? `: ${turn.lastStructuredError}` : ''}`,
  ],
});

/**
 * The ending of a turn that threw: an interrupt, a transcript that cannot be saved, or the model.
 */
async function failed(session: CliSession, turn: TurnState, reason: unknown): Promise<TurnEnding> {
  const { interrupted } = turn;
  if (interrupted) return interruptedEnding(interrupted, 'aborted_streaming', turn.lastText);
  const saved = await session.parts.transcript
    .saved()
    .catch((error: unknown) => DuolaneError.from(error));
  if (saved) return failedEnding('session_not_saved', saved.message);
  const error = modelError(reason);
  const text = `API Error: ${error.message}`;
  const status = error.status ?? null;
  session.emit({
    type: 'assistant',
    message: apiMessage(
      { id: randomUUID(), model: '<synthetic>', usage: turn.usage },
      [{ type: 'text', text }],
      { stop_reason: 'stop_sequence', stop_sequence: '' },
    ),
    parent_tool_use_id: null,
    error: errorName(error),
    is_api_error_message: true,
    api_error_status: status,
  });
  return { ...succeeded('api_error', text), failed: true, status };
}
