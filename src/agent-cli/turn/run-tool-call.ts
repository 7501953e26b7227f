import { isDeepStrictEqual } from 'node:util';
import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { MALFORMED_INPUT } from './message-builder.ts';
import { askHost } from './ask-host.ts';
import type { HookOutcome } from '../permissions/hook-dispatcher.ts';
import type { Block } from '../models/types.ts';
import { type Decision, evaluatePolicy } from '../permissions/permission-policy.ts';
import { asObject, asString } from '../../json.ts';
import { formatRule, type PermissionRule } from '../permissions/permission-rules.ts';
import type { CliSession } from '../session/cli-session.ts';
import { STRUCTURED_OUTPUT } from '../tools/structured-output.ts';
import { type AgentTool, type CallFacts, failedOutcome, type ToolOutcome } from '../tools/types.ts';
import { TurnInterrupted, type TurnState } from './turn-state.ts';
import { raceAbort } from '../../stream/abort.ts';

/** A call that has ended, one way or the other. */
export interface CallEnd {
  readonly result: Block;
  readonly raw: unknown;
  readonly meta: JsonObject;
  /** For the model, beside the result. */
  readonly context: readonly string[];
}

type Permit =
  | {
      readonly ok: true;
      /** What was decided about is what runs. */
      readonly input: JsonObject;
      readonly facts: CallFacts;
      readonly source: string;
      readonly context: readonly string[];
    }
  | { readonly ok: false; readonly outcome: ToolOutcome; readonly meta: JsonObject };

const HEARTBEAT_MS = 30_000;
const NOT_RUN = 'The user interrupted; this call was not executed. Wait for the user.';
const CUT_OFF =
  'The user interrupted this call; it may have had effects already. Wait for the user.';

/**
 * One tool call from the model's block to its result: hooks, permission, the call itself, hooks
 * again. Never rejects; when the turn is interrupted it does not wait for a tool that does not
 * listen. Ends in a result, but for one case: the process ends while the host had yet to answer.
 * Then there is none, and the call stays open for the process that resumes the session.
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
    return end(
      id,
      failedOutcome(
        `The arguments of ${name} were no JSON object: ${asString(input[MALFORMED_INPUT])}`,
      ),
      {},
    );
  }
  let started = false;
  const leave = tool.server?.source === 'sdk' ? turn.await(id) : undefined;
  try {
    turn.signal.throwIfAborted();
    const permit = await permission(session, turn, { id, name, input, tool });
    if (!permit.ok) return end(id, permit.outcome, permit.meta);
    await session.transcript.saved();
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
    if (leave && turn.interrupted?.by === 'end') return undefined;
    if (turn.signal.aborted)
      return end(id, failedOutcome(started ? CUT_OFF : NOT_RUN), {
        non_execution_kind: 'user-rejected',
      });
    return end(id, failedOutcome(DuolaneError.from(reason).message), {});
  } finally {
    leave?.();
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

async function permission(session: CliSession, turn: TurnState, call: Named): Promise<Permit> {
  const { id, name, tool } = call;
  const { signal } = turn;
  if (name === STRUCTURED_OUTPUT) {
    const facts = tool.facts(call.input);
    return { ok: true, input: call.input, facts, source: 'config', context: [] };
  }
  const hook = await session.hooks.fire('PreToolUse', hookFields(call), {
    signal,
    toolUseId: id,
    subject: name,
  });
  turn.stoppedBy ??= hook.stop;
  if (hook.unanswered) {
    tellDecision(session, call, { decision: 'deny', by: 'hook', message: hook.unanswered });
    return refuse(`${hook.unanswered}. The call was not executed.`, {});
  }
  let input = hook.updatedInput ?? call.input;
  let approved: Decided | undefined;
  // The model's own input, unless an answer has put another one in its place.
  const noteDenial = (): void => turn.deny(name, id, approved ? input : call.input);
  const deny = (message: string, meta: JsonObject): Permit => {
    noteDenial();
    return refuse(message, meta);
  };
  const told = (fields: Omit<DecisionRecord, 'changedBy' | 'input'>): void => {
    const changedBy = approved ? 'answer' : hook.updatedInput ? 'hook' : undefined;
    tellDecision(session, call, { ...fields, ...(changedBy && { changedBy, input }) });
  };
  if (hook.decision === 'deny') {
    told({ decision: 'deny', by: 'hook', message: hook.reason || undefined });
    return deny(
      `PreToolUse:${name} hook error: ${hook.reason || 'denied'}`,
      rejected('hook', 'permission-rule'),
    );
  }
  const { context } = hook;
  // Once, and again for each answer that changes the input: what runs was decided about as it is.
  for (let round = 0; ; round++) {
    const facts = tool.facts(input);
    const decision = evaluatePolicy(
      { tool: name, builtin: !tool.server, readOnly: tool.readOnly, ...facts },
      session.policy,
    );
    const denied = decision.behavior === 'deny';
    const { reason: by, rule } = decision;
    if (!denied && approved && !reachesFurther({ facts, decision }, approved)) {
      told({ decision: 'allow', by: 'answer' });
      return { ok: true, input, facts, source: 'user_temporary', context };
    }
    const allowed =
      hook.decision === 'allow' || (decision.behavior === 'allow' && hook.decision !== 'ask');
    if (!denied && !approved && allowed) {
      const source = hook.decision === 'allow' ? 'hook' : 'config';
      told({ decision: 'allow', ...(source === 'hook' ? { by: 'hook' } : { by, rule }) });
      return { ok: true, input, facts, source, context };
    }
    if (denied || session.flags.permissionPromptTool !== 'stdio') {
      const message =
        decision.message ??
        `${name} needs a permission, and this session has no way to ask for it.`;
      told({ decision: 'deny', by, rule, message });
      sayDenied(session, call, message, decision.reason);
      return deny(message, rejected('config', 'user-rejected'));
    }
    if (round >= MAX_QUESTIONS) {
      const message = `The input of ${name} was changed ${MAX_QUESTIONS} times; the call was not executed.`;
      told({ decision: 'deny', by: 'answer', message });
      return deny(message, rejected('user_reject', 'permission-rule'));
    }
    told({ decision: 'ask', ...(hook.decision === 'ask' ? { by: 'hook' } : { by, rule }) });
    notify(session, turn, name);
    const answer = await askHost(session, { id, tool, input, facts, decision, signal }).catch(
      (reason: unknown) => {
        told({ decision: 'deny', by: 'interrupt', message: DuolaneError.from(reason).message });
        noteDenial();
        throw reason;
      },
    );
    if (answer.behavior === 'deny') {
      told({ decision: 'deny', by: 'answer', message: answer.message });
      if (answer.interrupt)
        turn.controller.abort(
          new TurnInterrupted('user', 'a permission was denied with interrupt'),
        );
      return deny(answer.message, rejected('user_reject', 'permission-rule'));
    }
    if (isDeepStrictEqual(answer.input, input)) {
      told({ decision: 'allow', by: 'answer' });
      return { ok: true, input, facts, source: 'user_temporary', context };
    }
    input = answer.input;
    approved = { facts, decision };
    const problem = await schemaProblem(tool.spec.input_schema, input);
    if (problem !== undefined) {
      const message = `The changed input of ${name} does not fit its schema: ${problem}`;
      told({ decision: 'deny', by: 'schema', message });
      sayDenied(session, call, message, 'other');
      return deny(message, rejected('user_reject', 'permission-rule'));
    }
  }
}

/** One decision about a call, for the record. */
interface DecisionRecord {
  readonly decision: 'allow' | 'deny' | 'ask';
  /** A rule, mode or check of the policy, a hook, the answer of the host, or what cut the wait short. */
  readonly by: Decision['reason'] | 'hook' | 'answer' | 'schema' | 'interrupt';
  readonly rule?: PermissionRule | undefined;
  readonly message?: string | undefined;
  /** What has replaced the model's input, and with what. */
  readonly changedBy?: 'hook' | 'answer';
  readonly input?: JsonObject;
}

/**
 * Writes a decision on the message lane before the call runs, so that a server can keep it: also of
 * calls that are allowed, and of those that end in a crash. Who answered is known to the host alone.
 */
function tellDecision(session: CliSession, { id, name }: Named, given: DecisionRecord): void {
  const { decision, by, rule, message, changedBy, input } = given;
  session.emit({
    type: 'system',
    subtype: 'policy_decision',
    tool_name: name,
    tool_use_id: id,
    decision,
    by,
    permission_mode: session.choices.policy.mode,
    ...(rule && { rule: formatRule(rule) }),
    ...(message !== undefined && { message }),
    ...(changedBy && { changed_by: changedBy, input }),
    timestamp: new Date().toISOString(),
  });
}

/** How often one call may be asked about: each answer may change its input once more. */
const MAX_QUESTIONS = 8;

interface Decided {
  readonly facts: CallFacts;
  readonly decision: Decision;
}

/** Whether a changed call needs a further answer: it leaves the directories, or meets an ask rule. */
function reachesFurther(now: Decided, approved: Decided): boolean {
  if (now.facts.outside !== undefined && now.facts.outside !== approved.facts.outside) return true;
  const { behavior, reason, rule } = now.decision;
  return behavior === 'ask' && reason === 'rule' && rule !== approved.decision.rule;
}

/** What is wrong with an input, or undefined; a schema that cannot be used refuses all. */
async function schemaProblem(schema: JsonObject, input: JsonObject): Promise<string | undefined> {
  const { compileOutputSchema } = await import('../tools/structured-output.ts');
  try {
    return (await compileOutputSchema(schema))(input);
  } catch (reason) {
    return DuolaneError.from(reason).message;
  }
}

function sayDenied(session: CliSession, call: Named, message: string, reason: string): void {
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

/** Tells Notification hooks that a person is asked; nobody waits for them. */
function notify(session: CliSession, turn: TurnState, name: string): void {
  const input = {
    message: `Permission is needed to use ${name}`,
    notification_type: 'permission_prompt',
  };
  void session.hooks
    .fire('Notification', input, {
      signal: turn.signal,
      toolUseId: '',
      subject: 'permission_prompt',
    })
    // A notification hook cannot stop anything, and hooks report their own failures.
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
  const heart = setInterval(() => {
    const beat = {
      tool_use_id: `${id}-heartbeat-${beats++}`,
      parent_tool_use_id: id,
      heartbeat: true,
    };
    session.emit({ ...base, ...beat, elapsed_time_seconds: elapsed() });
  }, HEARTBEAT_MS);
  try {
    const progress = (news: object): void => {
      session.emit({
        ...base,
        tool_use_id: id,
        parent_tool_use_id: null,
        elapsed_time_seconds: elapsed(),
        ...news,
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
    clearInterval(heart);
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
  const news: JsonObject = outcome.isError
    ? { error: textOf(outcome), is_interrupt: false }
    : { tool_response: outcome.raw };
  const event = outcome.isError ? 'PostToolUseFailure' : 'PostToolUse';
  const hook: HookOutcome = await session.hooks.fire(
    event,
    { ...hookFields(call), ...news, duration_ms },
    options,
  );
  turn.stoppedBy ??= hook.stop;
  const context = [
    ...hook.context,
    ...(hook.decision === 'deny' && hook.reason ? [hook.reason] : []),
  ];
  // The hook may have wanted to change or withhold the result, so nobody gets to see it.
  if (hook.unanswered)
    return { outcome: failedOutcome(`${hook.unanswered}. The result was withheld.`), context };
  if (outcome.isError || !('updatedOutput' in hook)) return { outcome, context };
  const { updatedOutput: raw } = hook;
  const content =
    typeof raw === 'string' ? raw : Array.isArray(raw) ? (raw as Block[]) : JSON.stringify(raw);
  return { outcome: { content, isError: false, raw }, context };
}

const textOf = ({ content }: ToolOutcome): string =>
  typeof content === 'string'
    ? content
    : content.map((block) => asString(block['text'])).join('\n');
