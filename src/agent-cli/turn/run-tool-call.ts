import { isDeepStrictEqual } from 'node:util';
import { DuolaneError } from '../../errors.ts';
import { MALFORMED_INPUT } from './message-builder.ts';
import { askHost } from './ask-host.ts';
import type { HookOutcome } from '../permissions/hook-dispatcher.ts';
import { type Block, contentText } from '../models/types.ts';
import { type Decision, evaluatePolicy } from '../permissions/permission-policy.ts';
import { asObject, asString, type JsonObject, omitUndefined } from '../../json.ts';
import { formatRule, type PermissionRule } from '../permissions/permission-rules.ts';
import type { CliSession } from '../session/cli-session.ts';
import { STRUCTURED_OUTPUT } from '../tools/structured-output.ts';
import { type AgentTool, type CallFacts, failedOutcome, type ToolOutcome } from '../tools/types.ts';
import { TurnInterrupted, type TurnState } from './turn-state.ts';
import { raceAbort } from '../../stream/abort.ts';

/** The end of a tool call: its result for the model, the host and the transcript. */
export interface CallEnd {
  readonly result: Block;
  readonly raw: unknown;
  readonly meta: JsonObject;
  /** Texts of hooks for the model, in addition to the result. */
  readonly context: readonly string[];
}

type Permit =
  | {
      readonly ok: true;
      /** The input that the decision was made about. The tool gets exactly this one. */
      readonly input: JsonObject;
      readonly facts: CallFacts;
      readonly source: string;
      readonly context: readonly string[];
    }
  | { readonly ok: false; readonly outcome: ToolOutcome; readonly meta: JsonObject };

const HEARTBEAT_MS = 30_000;
const NOT_RUN = 'The user interrupted; this call was not executed. Wait for the user.';
const INTERRUPTED =
  'The user interrupted this call; it may have had effects already. Wait for the user.';

/**
 * Runs one tool call, from the model's block to its result: PreToolUse hooks, permission, the tool,
 * PostToolUse hooks. Never rejects, and does not wait for a tool that ignores an interrupt. Returns
 * a result in every case but one: if the process ends before the host has responded, it returns
 * undefined, and the call stays open for the process that resumes the session.
 */
export async function runToolCall(
  session: CliSession,
  turn: TurnState,
  call: Block,
  tool: AgentTool | undefined,
): Promise<CallEnd | undefined> {
  const [id, name] = [asString(call['id']), asString(call['name'])];
  const input = asObject(call['input']);
  if (!tool) return end(id, failedOutcome(`No such tool available: ${name}`), {});
  if (MALFORMED_INPUT in input) {
    const message = `invalid arguments of ${name}: expected a JSON object, not ${asString(input[MALFORMED_INPUT])}`;
    return end(id, failedOutcome(message), {});
  }
  // The calls that wait behind one whose hook has ended the turn are part of that turn.
  if (turn.stoppedBy !== undefined)
    return end(id, failedOutcome(`The call was not executed: ${turn.stoppedBy}`), {});
  let started = false;
  const stopAwaiting = tool.server?.source === 'sdk' ? turn.await(id) : undefined;
  try {
    turn.signal.throwIfAborted();
    const permit = await permission(session, turn, { id, name, input, tool });
    if (!permit.ok) return end(id, permit.outcome, permit.meta);
    await session.parts.transcript.saved();
    started = true;
    const begun = performance.now();
    const outcome = await executeTool(session, turn, id, tool, permit);
    const after = await afterCall(session, turn, {
      id,
      name,
      tool,
      input: permit.input,
      outcome,
      begun,
    });
    const meta = { permission_decision: { decision: 'accept', source: permit.source } };
    return { ...end(id, after.outcome, meta), context: [...permit.context, ...after.context] };
  } catch (reason) {
    if (stopAwaiting && turn.interrupted?.by === 'end') return undefined;
    if (turn.signal.aborted)
      return end(id, failedOutcome(started ? INTERRUPTED : NOT_RUN), {
        non_execution_kind: 'user-rejected',
      });
    return end(id, failedOutcome(DuolaneError.from(reason).message), {});
  } finally {
    stopAwaiting?.();
  }
}

function end(id: string, outcome: ToolOutcome, meta: JsonObject): CallEnd {
  const { content, isError, raw } = outcome;
  return {
    result: { type: 'tool_result', tool_use_id: id, content, ...(isError && { is_error: true }) },
    raw,
    meta: { id, ...meta },
    context: [],
  };
}

interface Named {
  readonly id: string;
  readonly name: string;
  readonly input: JsonObject;
  readonly tool: AgentTool;
}

/** Decides whether a call may run: hooks first, then the policy, then the host. */
async function permission(session: CliSession, turn: TurnState, call: Named): Promise<Permit> {
  const { id, name, tool } = call;
  const { signal } = turn;
  if (name === STRUCTURED_OUTPUT) {
    const facts = tool.facts(call.input);
    return { ok: true, input: call.input, facts, source: 'config', context: [] };
  }
  const hook = await session.parts.hooks.fire('PreToolUse', hookFields(call), {
    signal,
    toolUseId: id,
    subject: name,
  });
  turn.stoppedBy ??= hook.stop;
  if (hook.unanswered) {
    emitDecision(session, call, { decision: 'deny', by: 'hook', message: hook.unanswered });
    return refuse(`${hook.unanswered}. The call was not executed.`, {});
  }
  let input = hook.updatedInput ?? call.input;
  let approved: Decided | undefined;
  // A denial reports the input of the model, unless the host has replaced it.
  const noteDenial = (): void => turn.deny(name, id, approved ? input : call.input);
  const deny = (message: string, meta: JsonObject): Permit => {
    noteDenial();
    return refuse(message, meta);
  };
  const emit = (fields: Omit<DecisionRecord, 'changedBy' | 'input'>): void => {
    const changedBy = approved ? 'answer' : hook.updatedInput ? 'hook' : undefined;
    emitDecision(session, call, { ...fields, ...(changedBy && { changedBy, input }) });
  };
  if (hook.decision === 'deny') {
    emit({ decision: 'deny', by: 'hook', message: hook.reason || undefined });
    return deny(
      `PreToolUse:${name} hook error: ${hook.reason || 'denied'}`,
      rejected('hook', 'permission-rule'),
    );
  }
  if (hook.stop !== undefined) {
    emit({ decision: 'deny', by: 'hook', message: hook.stop });
    return deny(
      `PreToolUse:${name} hook ended the turn: ${hook.stop}`,
      rejected('hook', 'permission-rule'),
    );
  }
  const { context } = hook;
  // Decide again for each response that changes the input: the tool must not get an input that no
  // decision was made about.
  for (let round = 0; ; round++) {
    const facts = tool.facts(input);
    const decision = evaluatePolicy(
      { tool: name, builtin: !tool.server, readOnly: tool.readOnly, ...facts },
      session.policy,
    );
    const denied = decision.behavior === 'deny';
    const { reason: by, rule } = decision;
    if (!denied && approved && !reachesFurther({ facts, decision }, approved)) {
      emit({ decision: 'allow', by: 'answer' });
      return { ok: true, input, facts, source: 'user_temporary', context };
    }
    // A hook replaces the default question, but not one that a rule of the operator demands.
    const isAskedByRule = decision.behavior === 'ask' && by === 'rule';
    const allowed =
      (hook.decision === 'allow' && !isAskedByRule) ||
      (decision.behavior === 'allow' && hook.decision !== 'ask');
    if (!denied && !approved && allowed) {
      const source = hook.decision === 'allow' ? 'hook' : 'config';
      emit({ decision: 'allow', ...(source === 'hook' ? { by: 'hook' } : { by, rule }) });
      return { ok: true, input, facts, source, context };
    }
    if (denied || session.parts.flags.permissionPromptTool !== 'stdio') {
      const message =
        decision.message ??
        `${name} needs a permission, and this session cannot ask for it: start it with --permission-prompt-tool=stdio.`;
      emit({ decision: 'deny', by, rule, message });
      emitDenied(session, call, message, decision.reason);
      return deny(message, rejected('config', 'user-rejected'));
    }
    if (round >= MAX_QUESTIONS) {
      const message = `The call was not executed: the input of ${name} was changed ${MAX_QUESTIONS} times.`;
      emit({ decision: 'deny', by: 'answer', message });
      return deny(message, rejected('user_reject', 'permission-rule'));
    }
    emit({ decision: 'ask', ...(hook.decision === 'ask' ? { by: 'hook' } : { by, rule }) });
    notify(session, turn, name);
    const answer = await askHost(session, { id, tool, input, facts, decision, signal }).catch(
      (reason: unknown) => {
        emit({ decision: 'deny', by: 'interrupt', message: DuolaneError.from(reason).message });
        noteDenial();
        throw reason;
      },
    );
    if (answer.behavior === 'deny') {
      emit({ decision: 'deny', by: 'answer', message: answer.message });
      if (answer.interrupt)
        turn.controller.abort(
          new TurnInterrupted('user', 'a permission was denied with interrupt'),
        );
      return deny(answer.message, rejected('user_reject', 'permission-rule'));
    }
    if (isDeepStrictEqual(answer.input, input)) {
      emit({ decision: 'allow', by: 'answer' });
      return { ok: true, input, facts, source: 'user_temporary', context };
    }
    input = answer.input;
    approved = { facts, decision };
    const { inputProblem } = await import('../tools/check-in-thread.ts');
    const problem = await inputProblem(tool, input, signal);
    if (problem !== undefined) {
      const message = `The changed input of ${name} does not match its schema: ${problem}`;
      emit({ decision: 'deny', by: 'schema', message });
      emitDenied(session, call, message, 'other');
      return deny(message, rejected('user_reject', 'permission-rule'));
    }
  }
}

/** One decision about a call, for `policy_decision`. */
interface DecisionRecord {
  readonly decision: 'allow' | 'deny' | 'ask';
  /** What decided: the policy, a hook, the host, the check of a changed input, or an interrupt. */
  readonly by: Decision['reason'] | 'hook' | 'answer' | 'schema' | 'interrupt';
  readonly rule?: PermissionRule | undefined;
  readonly message?: string | undefined;
  /** What replaced the model's input, and the new input. */
  readonly changedBy?: 'hook' | 'answer';
  readonly input?: JsonObject;
}

/**
 * Writes a decision to the message lane before the call runs, so that a server can store it: also
 * for allowed calls, and for calls that end in a crash. Only the host knows which person decided.
 */
function emitDecision(session: CliSession, { id, name }: Named, given: DecisionRecord): void {
  const { decision, by, rule, message, changedBy, input } = given;
  session.emit({
    type: 'system',
    subtype: 'policy_decision',
    tool_name: name,
    tool_use_id: id,
    decision,
    by,
    permission_mode: session.parts.choices.policy.mode,
    ...omitUndefined({ rule: rule && formatRule(rule), message, changed_by: changedBy, input }),
    timestamp: new Date().toISOString(),
  });
}

/** The limit of permission requests for one call: each response may change the input again. */
const MAX_QUESTIONS = 8;

interface Decided {
  readonly facts: CallFacts;
  readonly decision: Decision;
}

/**
 * Whether a changed call needs another permission request: it uses another path outside of the
 * directories, or another ask rule covers it.
 */
function reachesFurther(now: Decided, approved: Decided): boolean {
  if (now.facts.outside !== undefined && now.facts.outside !== approved.facts.outside) return true;
  const { behavior, reason, rule } = now.decision;
  return behavior === 'ask' && reason === 'rule' && rule !== approved.decision.rule;
}

function emitDenied(session: CliSession, call: Named, message: string, reason: string): void {
  session.emit({
    type: 'system',
    subtype: 'permission_denied',
    tool_name: call.name,
    tool_use_id: call.id,
    message,
    decision_reason_type: reason,
  });
}

const refuse = (message: string, meta: JsonObject): Permit => ({
  ok: false,
  outcome: failedOutcome(message),
  meta,
});

const rejected = (source: string, kind: string): JsonObject => ({
  non_execution_kind: kind,
  permission_decision: { decision: 'reject', source },
});

const hookFields = ({ id, name, input, tool }: Named): JsonObject => ({
  tool_name: name,
  tool_input: input,
  tool_use_id: id,
  ...(tool.server && { mcp_server: { name: tool.server.name, source: tool.server.source } }),
});

/** Fires the Notification hooks for a permission request, without waiting for them. */
function notify(session: CliSession, turn: TurnState, name: string): void {
  const input = {
    message: `Permission is needed to use ${name}`,
    notification_type: 'permission_prompt',
  };
  void session.parts.hooks
    .fire('Notification', input, {
      signal: turn.signal,
      toolUseId: '',
      subject: 'permission_prompt',
    })
    // A notification hook cannot prevent anything, and the dispatcher reports failures of hooks.
    .catch(() => {});
}

async function executeTool(
  session: CliSession,
  turn: TurnState,
  id: string,
  tool: AgentTool,
  { input, facts }: { readonly input: JsonObject; readonly facts: CallFacts },
): Promise<ToolOutcome> {
  const { signal } = turn;
  const begun = performance.now();
  const elapsed = (): number => Math.round((performance.now() - begun) / 100) / 10;
  const base = { type: 'tool_progress', tool_name: tool.spec.name };
  let beats = 0;
  const heartbeat = setInterval(() => {
    const beat = {
      tool_use_id: `${id}-heartbeat-${beats++}`,
      parent_tool_use_id: id,
      heartbeat: true,
    };
    session.emit({ ...base, ...beat, elapsed_time_seconds: elapsed() });
  }, HEARTBEAT_MS);
  try {
    const progress = (update: object): void => {
      session.emit({
        ...base,
        tool_use_id: id,
        parent_tool_use_id: null,
        elapsed_time_seconds: elapsed(),
        ...update,
        type: 'tool_progress',
      });
    };
    signal.throwIfAborted();
    return await raceAbort(
      tool.call(input, { id, signal, progress, path: facts.path?.real }),
      signal,
    );
  } catch (reason) {
    signal.throwIfAborted();
    return failedOutcome(DuolaneError.from(reason).message);
  } finally {
    clearInterval(heartbeat);
  }
}

async function afterCall(
  session: CliSession,
  turn: TurnState,
  call: Named & { readonly outcome: ToolOutcome; readonly begun: number },
): Promise<{ readonly outcome: ToolOutcome; readonly context: readonly string[] }> {
  const { id, name, outcome } = call;
  const duration_ms = Math.round(performance.now() - call.begun);
  const options = { signal: turn.signal, toolUseId: id, subject: name };
  const fields: JsonObject = outcome.isError
    ? { error: contentText(outcome.content), is_interrupt: false }
    : { tool_response: outcome.raw };
  const event = outcome.isError ? 'PostToolUseFailure' : 'PostToolUse';
  const hook: HookOutcome = await session.parts.hooks.fire(
    event,
    { ...hookFields(call), ...fields, duration_ms },
    options,
  );
  turn.stoppedBy ??= hook.stop;
  const context = [
    ...hook.context,
    ...(hook.decision === 'deny' && hook.reason ? [hook.reason] : []),
  ];
  // The failed hook might have changed or withheld the result, so neither model nor host gets it.
  if (hook.unanswered)
    return { outcome: failedOutcome(`${hook.unanswered}. The result was withheld.`), context };
  if (outcome.isError || !('updatedOutput' in hook)) return { outcome, context };
  const { updatedOutput: raw } = hook;
  const content =
    typeof raw === 'string' ? raw : Array.isArray(raw) ? (raw as Block[]) : JSON.stringify(raw);
  return { outcome: { content, isError: false, raw }, context };
}
