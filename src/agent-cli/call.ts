import { DuolaneError } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import { MALFORMED_INPUT } from './answer.ts';
import { askHost } from './ask-host.ts';
import type { HookOutcome } from './hooks.ts';
import type { Block } from './models/types.ts';
import { decide } from './permissions.ts';
import { record, str } from './read.ts';
import type { Session } from './session.ts';
import { STRUCTURED_OUTPUT } from './structured.ts';
import { type AgentTool, failure, type ToolOutcome } from './tools/types.ts';
import { Interrupted, type TurnState } from './turn-state.ts';
import { unlessAborted } from './wait.ts';

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
      readonly input: JsonObject;
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
export async function runCall(
  session: Session,
  turn: TurnState,
  call: Block,
  tool: AgentTool | undefined,
): Promise<CallEnd | undefined> {
  const [id, name] = [str(call['id']), str(call['name'])];
  const input = record(call['input']);
  if (!tool) return end(id, failure(`No such tool available: ${name}`), {});
  if (MALFORMED_INPUT in input) {
    return end(
      id,
      failure(`The arguments of ${name} were no JSON object: ${str(input[MALFORMED_INPUT])}`),
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
    const outcome = await perform(session, turn, id, tool, permit.input);
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
      return end(id, failure(started ? CUT_OFF : NOT_RUN), { non_execution_kind: 'user-rejected' });
    return end(id, failure(DuolaneError.from(reason).message), {});
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

async function permission(session: Session, turn: TurnState, call: Named): Promise<Permit> {
  const { id, name, tool } = call;
  const { signal } = turn;
  if (name === STRUCTURED_OUTPUT)
    return { ok: true, input: call.input, source: 'config', context: [] };
  const hook = await session.hooks.fire('PreToolUse', hookFields(call), {
    signal,
    toolUseId: id,
    subject: name,
  });
  turn.stoppedBy ??= hook.stop;
  if (hook.unanswered) {
    return refuse(`${hook.unanswered}. The call was not executed.`, {});
  }
  const input = hook.updatedInput ?? call.input;
  const deny = (message: string, meta: JsonObject): Permit => {
    turn.deny(name, id, call.input);
    return refuse(message, meta);
  };
  if (hook.decision === 'deny') {
    return deny(
      `PreToolUse:${name} hook error: ${hook.reason || 'denied'}`,
      rejected('hook', 'permission-rule'),
    );
  }
  const facts = tool.facts(input);
  const decision = decide(
    { tool: name, builtin: !tool.server, readOnly: tool.readOnly, ...facts },
    session.choices.policy,
  );
  const allowed =
    hook.decision === 'allow' || (decision.behavior === 'allow' && hook.decision !== 'ask');
  if (decision.behavior !== 'deny' && allowed) {
    const source = hook.decision === 'allow' ? 'hook' : 'config';
    return { ok: true, input, source, context: hook.context };
  }
  if (decision.behavior === 'deny' || session.flags.permissionPromptTool !== 'stdio') {
    const message =
      decision.message ??
      `${name} needs a permission that was not given, and nobody can be asked for it.`;
    session.emit({
      type: 'system',
      subtype: 'permission_denied',
      tool_name: name,
      tool_use_id: id,
      message,
      decision_reason_type: decision.reason,
    });
    return deny(message, rejected('config', 'user-rejected'));
  }
  notify(session, turn, name);
  const answer = await askHost(session, { id, tool, input, facts, decision, signal }).catch(
    (reason: unknown) => {
      turn.deny(name, id, call.input);
      throw reason;
    },
  );
  if (answer.behavior === 'allow') {
    return { ok: true, input: answer.input, source: 'user_temporary', context: hook.context };
  }
  if (answer.interrupt)
    turn.controller.abort(new Interrupted('user', 'a permission was denied with interrupt'));
  return deny(answer.message, rejected('user_reject', 'permission-rule'));
}

const refuse = (message: string, meta: JsonObject): Permit => ({
  ok: false,
  outcome: failure(message),
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
function notify(session: Session, turn: TurnState, name: string): void {
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

async function perform(
  session: Session,
  turn: TurnState,
  id: string,
  tool: AgentTool,
  input: JsonObject,
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
    return await unlessAborted(tool.call(input, { id, signal, progress }), signal);
  } catch (reason) {
    signal.throwIfAborted();
    return failure(DuolaneError.from(reason).message);
  } finally {
    clearInterval(heart);
  }
}

async function afterCall(
  session: Session,
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
  if (outcome.isError || !('updatedOutput' in hook)) return { outcome, context };
  const { updatedOutput: raw } = hook;
  const content =
    typeof raw === 'string' ? raw : Array.isArray(raw) ? (raw as Block[]) : JSON.stringify(raw);
  return { outcome: { content, isError: false, raw }, context };
}

const textOf = ({ content }: ToolOutcome): string =>
  typeof content === 'string' ? content : content.map((block) => str(block['text'])).join('\n');
