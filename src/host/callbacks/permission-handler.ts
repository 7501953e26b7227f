import { isDeepStrictEqual } from 'node:util';
import type { Ask } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { asString, isObject, type JsonObject } from '../../json.ts';
import type { FrameQueue } from '../frames/frame-queue.ts';
import type {
  CanUseTool,
  CanUseToolOptions,
  PermissionDecision,
  PermissionResult,
} from '../sdk-types/permission-types.ts';
import type { ControlResponse, ControlRequest } from '../../wire/control-peer.ts';

const KEPT = 1000;

/** Keeps a decision, and tells it on the message lane. */
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
  readonly canUseTool?: CanUseTool;
  readonly ask?: Ask;
  /** False: an answer to `ask` that changes the input is a deny. */
  readonly approvalEdits?: boolean;
  /** Every decision, as it is made. */
  readonly onDecision?: (decision: PermissionDecision) => void;
}

type Decided = Pick<PermissionDecision, 'by' | 'reason'> & { readonly result: PermissionResult };

/** Answers `can_use_tool`: by callback, else by `ask`, else by a deny. A bad answer is a deny too. */
export async function answerCanUseTool(
  request: ControlRequest,
  context: { readonly id: string; readonly signal: AbortSignal },
  options: PermissionOptions,
): Promise<ControlResponse> {
  const toolName = String(request['tool_name']);
  const toolUseID = asString(request['tool_use_id']);
  const input = isObject(request['input']) ? request['input'] : {};
  const decided = await verdict(toolName, toolUseID, input, request, context, options);
  const { result, by, reason } = decided;
  options.onDecision?.({ toolName, toolUseID, behavior: result.behavior, by, reason });
  const kept =
    result.behavior === 'allow'
      ? { ...result, updatedInput: result.updatedInput ?? input }
      : result;
  return { ok: true, response: { ...kept, toolUseID } };
}

async function verdict(
  toolName: string,
  toolUseID: string,
  input: JsonObject,
  request: ControlRequest,
  { id, signal }: { readonly id: string; readonly signal: AbortSignal },
  { canUseTool, ask, approvalEdits = true }: PermissionOptions,
): Promise<Decided> {
  const by = canUseTool ? 'canUseTool' : ask ? 'ask' : 'nobody';
  try {
    if (canUseTool) {
      const answer: unknown = await canUseTool(toolName, input, {
        ...optionsOf(request),
        signal,
        toolUseID,
        requestId: id,
      });
      const result = checked(answer);
      return { by, result, reason: result.behavior === 'deny' ? result.message : 'allowed' };
    }
    if (ask) {
      const answer = await asked(ask, toolName, toolUseID || id, input, request, signal);
      return { by, ...(approvalEdits ? answer : withoutEdits(answer, toolName, input)) };
    }
  } catch (error) {
    const message = `Permission for ${toolName} could not be decided: ${DuolaneError.from(error).message}`;
    return { by, result: { behavior: 'deny', message }, reason: message };
  }
  const message = 'Nobody is there to decide: give canUseTool, ask or allowedTools';
  return { by, result: { behavior: 'deny', message }, reason: message };
}

/** The answer, or a deny when it changes the input: no part of it is taken over. */
function withoutEdits(
  answer: Pick<Decided, 'result' | 'reason'>,
  toolName: string,
  input: JsonObject,
): Pick<Decided, 'result' | 'reason'> {
  const { result } = answer;
  if (result.behavior !== 'allow' || result.updatedInput === undefined) return answer;
  if (isDeepStrictEqual(result.updatedInput, input)) return answer;
  const message = `${toolName} was approved with changes, and this server does not take changes (approvalEdits): approve it as it is, or decline`;
  return { result: { behavior: 'deny', message }, reason: message };
}

/** accept = allow, its content is the new input; decline = deny; cancel = deny and stop the turn. */
async function asked(
  ask: Ask,
  toolName: string,
  callId: string,
  input: JsonObject,
  request: ControlRequest,
  signal: AbortSignal,
): Promise<Pick<Decided, 'result' | 'reason'>> {
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
    const result: PermissionResult = isObject(content)
      ? { behavior: 'allow', updatedInput: content }
      : { behavior: 'allow' };
    return { result, reason: isObject(content) ? 'accepted with changes' : 'accepted' };
  }
  const message = typeof content === 'string' ? content : `${toolName} was declined by a person`;
  return action === 'cancel'
    ? { result: { behavior: 'deny', message, interrupt: true }, reason: 'cancelled' }
    : { result: { behavior: 'deny', message }, reason: 'declined' };
}

const MAX_INPUT_CHARS = 1000;
const MAX_DESCRIPTION_CHARS = 200;
/** Characters that change how the text around them looks, or that cannot be seen. */
const UNSEEN = /[\u0080-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/**
 * The question as a person reads it, who may see nothing else: a client for text alone shows no
 * `data`. So it says what runs. The description is the model's own word about its call, and must not
 * stand for the call.
 */
function questionOf(toolName: string, input: JsonObject, request: ControlRequest): string {
  const { title, description } = request;
  const { description: said, ...rest } = input;
  // Of a tool whose argument it is, a description is part of what runs.
  const shown = said === description ? rest : input;
  const what = shortened(JSON.stringify(shown), MAX_INPUT_CHARS);
  const described =
    typeof description === 'string' && description !== ''
      ? ` (described as ${shortened(JSON.stringify(description), MAX_DESCRIPTION_CHARS)})`
      : '';
  const asked = typeof title === 'string' ? title : `May ${toolName} run?`;
  return `${asked} ${what}${described}`;
}

/** The middle is left out, not the end: what matters may stand behind a long run of blanks. */
function shortened(text: string, max: number): string {
  const visible = text.replace(
    UNSEEN,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  if (visible.length <= max) return visible;
  const half = max / 2;
  const left = visible.length - max;
  return `${visible.slice(0, half)} … ${left} more characters … ${visible.slice(-half)}`;
}

/** The answer of a callback, or a throw that names what is wrong with its shape. */
function checked(answer: unknown): PermissionResult {
  const fail = (why: string): never => {
    throw new DuolaneError('invalid', `canUseTool gave a bad answer: ${why}`);
  };
  if (!isObject(answer)) return fail(`${answer === null ? 'null' : typeof answer}, not an object`);
  const { behavior, message, updatedInput, updatedPermissions } = answer;
  if (behavior === 'allow') {
    if (updatedInput !== undefined && !isObject(updatedInput))
      return fail('updatedInput must be an object');
    if (updatedPermissions !== undefined && !Array.isArray(updatedPermissions))
      return fail('updatedPermissions must be an array');
  } else if (behavior === 'deny') {
    if (typeof message !== 'string') return fail('deny needs a message for the model');
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
    title: 'title',
    displayName: 'display_name',
    description: 'description',
    agentID: 'agent_id',
    mcpServer: 'mcp_server',
  };
  return Object.fromEntries(
    Object.entries(names)
      .filter(([, wire]) => request[wire] !== undefined)
      .map(([ours, wire]) => [ours, request[wire]]),
  );
}
