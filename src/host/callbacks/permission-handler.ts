import { isDeepStrictEqual } from 'node:util';
import { type Ask, approvedArgs } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { asObject, asString, isObject, type JsonObject, omitUndefined } from '../../json.ts';
import type { FrameQueue } from '../frames/frame-queue.ts';
import type {
  CanUseTool,
  CanUseToolOptions,
  PermissionDecision,
  PermissionResult,
} from '../sdk-types/permission-types.ts';
import type { ControlResponse, ControlRequest } from '../../wire/control-peer.ts';

const KEPT = 1000;

/** Keeps a decision for `session.decisions` and reports it on the message lane. */
export function recordDecision(
  decision: PermissionDecision,
  decisions: PermissionDecision[],
  lanes: Pick<FrameQueue, 'pushHostMessage'>,
): void {
  const { toolName: tool_name, toolUseID: tool_use_id, behavior, by, reason } = decision;
  decisions.push(decision);
  if (decisions.length > KEPT) decisions.shift();
  lanes.pushHostMessage('permission_decision', { tool_name, tool_use_id, behavior, by, reason });
}

export interface PermissionOptions {
  readonly canUseTool?: CanUseTool | undefined;
  readonly ask?: Ask | undefined;
  /** False: an answer to `ask` that changes the input denies the tool. */
  readonly approvalEdits?: boolean | undefined;
  /** Called with every decision. */
  readonly onDecision?: (decision: PermissionDecision) => void;
}

interface Decided {
  readonly result: PermissionResult;
  readonly reason: string;
}

/** The call that needs a permission. `id` is that of the control request. */
interface PermissionCall {
  readonly toolName: string;
  readonly toolUseID: string;
  readonly input: JsonObject;
  readonly request: ControlRequest;
  readonly id: string;
  readonly signal: AbortSignal;
}

const denied = (message: string): Decided => ({
  result: { behavior: 'deny', message },
  reason: message,
});

/**
 * Answers `can_use_tool` with the callback, else with `ask`, else with a deny. An invalid result of
 * a callback, or an error, denies the tool as well: a mistake in the app must not allow a call. If
 * the callback returns null, the request stays open, as in the official SDK: another client of the
 * CLI decides it, and the tool does not run before.
 */
export async function answerCanUseTool(
  request: ControlRequest,
  { id, signal }: { readonly id: string; readonly signal: AbortSignal },
  options: PermissionOptions,
): Promise<ControlResponse | undefined> {
  const toolName = String(request['tool_name']);
  const toolUseID = asString(request['tool_use_id']);
  const input = asObject(request['input']);
  const call = { toolName, toolUseID, input, request, id, signal };
  const decided = await verdict(call, options);
  if (!decided) return undefined;
  const { result, reason } = decided;
  const by = options.canUseTool ? 'canUseTool' : options.ask ? 'ask' : 'nobody';
  options.onDecision?.({ toolName, toolUseID, behavior: result.behavior, by, reason });
  const kept =
    result.behavior === 'allow'
      ? { ...result, updatedInput: result.updatedInput ?? input }
      : result;
  return { ok: true, response: { ...kept, toolUseID } };
}

async function verdict(
  call: PermissionCall,
  options: PermissionOptions,
): Promise<Decided | undefined> {
  const { toolName, toolUseID, input, request, id, signal } = call;
  const { canUseTool, ask, approvalEdits = true } = options;
  try {
    if (canUseTool) {
      const answer: unknown = await canUseTool(toolName, input, {
        ...optionsOf(request),
        signal,
        toolUseID,
        requestId: id,
      });
      if (answer === null) return undefined;
      const result = checked(answer);
      return { result, reason: result.behavior === 'deny' ? result.message : 'allowed' };
    }
    if (ask) {
      const answer = await asked(ask, call);
      return approvalEdits ? answer : withoutEdits(answer, call);
    }
  } catch (error) {
    const { message } = DuolaneError.from(error);
    return denied(`Permission for ${toolName} could not be decided: ${message}`);
  }
  return denied('No permission callback is set; set canUseTool, ask or allowedTools');
}

/** The answer, or a deny if it changes the input. The changed input is dropped completely. */
function withoutEdits(answer: Decided, { toolName, input }: PermissionCall): Decided {
  const { result } = answer;
  if (result.behavior !== 'allow' || result.updatedInput === undefined) return answer;
  if (isDeepStrictEqual(result.updatedInput, input)) return answer;
  return denied(
    `${toolName} was approved with changes, and this server does not accept changes (approvalEdits): approve the input as it is, or decline`,
  );
}

/**
 * Asks a person. An `accept` allows the tool, with the input in its content, if there is one; a
 * `decline` denies it; a `cancel` denies it and ends the turn.
 */
async function asked(ask: Ask, call: PermissionCall): Promise<Decided> {
  const { toolName, toolUseID, input, request, id, signal } = call;
  const callId = toolUseID || id;
  const { action, content } = await ask(
    {
      id: `${callId}/permission`,
      kind: 'approval',
      callId,
      message: questionOf(toolName, input, request),
      data: { toolName, input },
    },
    { signal },
  );
  if (action === 'accept') {
    const approved = approvedArgs(content, { toolName, input }, 'input');
    if (!approved || !isObject(approved.args))
      return denied(
        `${toolName} was approved with an invalid change: expected its input, or the data of the question with another input`,
      );
    return approved.changed
      ? {
          result: { behavior: 'allow', updatedInput: approved.args },
          reason: 'accepted with changes',
        }
      : { result: { behavior: 'allow' }, reason: 'accepted' };
  }
  const message = typeof content === 'string' ? content : `${toolName} was declined by a person`;
  return action === 'cancel'
    ? { result: { behavior: 'deny', message, interrupt: true }, reason: 'cancelled' }
    : { result: { behavior: 'deny', message }, reason: 'declined' };
}

const MAX_INPUT_CHARS = 1000;
const MAX_DESCRIPTION_CHARS = 200;
/**
 * Invisible characters, and characters that reorder the text around them. They are shown as
 * escapes.
 */
const UNSEEN = /[\u007f-\u009f\u2028\u2029\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;

/**
 * The text of the question. It contains what will run, because a client that shows only text does
 * not show `data`. The description comes from the model, so it is marked as such and never replaces
 * the input: a person would otherwise approve a claim instead of a call.
 */
function questionOf(toolName: string, input: JsonObject, request: ControlRequest): string {
  const { title, description } = request;
  const { description: inputDescription, ...rest } = input;
  // If the two differ, `description` is an argument of the tool and part of what runs.
  const shown = inputDescription === description ? rest : input;
  const what = shortened(JSON.stringify(shown), MAX_INPUT_CHARS);
  const described =
    typeof description === 'string' && description !== ''
      ? ` (described as ${shortened(JSON.stringify(description), MAX_DESCRIPTION_CHARS)})`
      : '';
  const question = typeof title === 'string' ? title : `May ${toolName} run?`;
  return `${question} ${what}${described}`;
}

/**
 * Shortens a text in its middle: a dangerous command may be hidden at the end, behind a long run of
 * blanks.
 */
function shortened(text: string, max: number): string {
  const visible = text.replace(UNSEEN, (found) =>
    found
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
  if (visible.length <= max) return visible;
  const half = max / 2;
  const omitted = visible.length - max;
  return `${visible.slice(0, half)} … ${omitted} more characters … ${visible.slice(-half)}`;
}

/** The result of a callback. Throws `invalid` with the member that is wrong. */
function checked(answer: unknown): PermissionResult {
  const fail = (why: string): never => {
    throw new DuolaneError('invalid', `canUseTool returned an invalid result: ${why}`);
  };
  if (!isObject(answer)) return fail(`expected an object, got ${typeof answer}`);
  const { behavior, message, updatedInput, updatedPermissions } = answer;
  if (behavior === 'allow') {
    if (updatedInput !== undefined && !isObject(updatedInput))
      return fail('updatedInput must be an object');
    if (updatedPermissions !== undefined && !Array.isArray(updatedPermissions))
      return fail('updatedPermissions must be an array');
  } else if (behavior === 'deny') {
    if (typeof message !== 'string') return fail('deny must have a message for the model');
  } else return fail(`behavior must be 'allow' or 'deny', got ${JSON.stringify(behavior)}`);
  return answer as PermissionResult;
}

function optionsOf(
  request: ControlRequest,
): Omit<CanUseToolOptions, 'signal' | 'toolUseID' | 'requestId'> {
  const names = {
    suggestions: 'permission_suggestions',
    blockedPath: 'blocked_path',
    decisionReason: 'decision_reason',
    decisionReasonType: 'decision_reason_type',
    defaultToNo: 'default_to_no',
    suppressAlwaysAllowRule: 'suppress_always_allow_rule',
    requiresUserInteraction: 'requires_user_interaction',
    title: 'title',
    displayName: 'display_name',
    description: 'description',
    agentID: 'agent_id',
    mcpServer: 'mcp_server',
  };
  const given = Object.entries(names)
    .filter(([, wire]) => request[wire] !== undefined)
    .map(([ours, wire]) => [ours, request[wire]]);
  return { ...Object.fromEntries(given), ...askRuleOf(request['matched_ask_rule']) };
}

function askRuleOf(rule: unknown): Pick<CanUseToolOptions, 'matchedAskRule'> {
  if (!isObject(rule)) return {};
  const { source, tool_name: toolName, rule_content: ruleContent } = rule;
  return {
    matchedAskRule: omitUndefined<NonNullable<CanUseToolOptions['matchedAskRule']>>({
      source: asString(source),
      toolName: asString(toolName),
      ruleContent: typeof ruleContent === 'string' ? ruleContent : undefined,
    }),
  };
}
