import { isObject, type JsonObject } from '../json.ts';
import type { ControlAnswer, ControlRequest } from '../wire/control.ts';

/** The events that a hook can listen to. Which of them fire is the CLI's matter. */
export const HOOK_EVENTS = [
  'PreToolUse',
  'PostToolUse',
  'PostToolUseFailure',
  'PostToolBatch',
  'Notification',
  'UserPromptSubmit',
  'UserPromptExpansion',
  'SessionStart',
  'SessionEnd',
  'Stop',
  'StopFailure',
  'SubagentStart',
  'SubagentStop',
  'PreCompact',
  'PostCompact',
  'PreModelSwitch',
  'PostModelSwitch',
  'PermissionRequest',
  'PermissionDenied',
  'Setup',
  'TeammateIdle',
  'TaskCreated',
  'TaskCompleted',
  'Elicitation',
  'ElicitationResult',
  'ConfigChange',
  'WorktreeCreate',
  'WorktreeRemove',
  'InstructionsLoaded',
  'CwdChanged',
  'FileChanged',
  'DirectoryAdded',
  'MessageDisplay',
] as const;

export type HookEvent = (typeof HOOK_EVENTS)[number];

/** What the CLI tells a hook; the fields of the event are beside the common ones. */
export interface HookInput extends JsonObject {
  readonly hook_event_name: HookEvent;
  readonly session_id: string;
  readonly transcript_path: string;
  readonly cwd: string;
  readonly permission_mode?: string;
}

/** `{}` is no opinion; `{ async: true }` lets the CLI go on at once. */
export interface HookJSONOutput extends JsonObject {
  readonly continue?: boolean;
  readonly stopReason?: string;
  readonly suppressOutput?: boolean;
  readonly decision?: 'approve' | 'block';
  readonly reason?: string;
  readonly systemMessage?: string;
  readonly hookSpecificOutput?: JsonObject;
  readonly async?: true;
  readonly asyncTimeout?: number;
}

/** `signal` aborts when the CLI no longer waits: its `timeout` passed, or the turn was interrupted. */
export type HookCallback = (
  input: HookInput,
  toolUseID: string | undefined,
  options: { readonly signal: AbortSignal },
) => Promise<HookJSONOutput> | HookJSONOutput;

export interface HookCallbackMatcher {
  /** Names of tools, as the CLI matches them. */
  readonly matcher?: string;
  readonly hooks: readonly HookCallback[];
  /** Seconds. */
  readonly timeout?: number;
  /** What a hook that throws or gives a bad answer does to the action; `block` needs a CLI that can. */
  readonly onFailure?: 'block' | 'continue';
}

export type HookOptions = Readonly<Partial<Record<HookEvent, readonly HookCallbackMatcher[]>>>;

/** The call of a SessionEnd hook: a CLI makes it when it leaves, and may wait for no answer. */
export const isGoodbye = ({ subtype, input }: ControlRequest): boolean =>
  subtype === 'hook_callback' && isObject(input) && input['hook_event_name'] === 'SessionEnd';

/** The hooks of one session: their registration for `initialize`, and who is called by which id. */
export class Hooks {
  /** The `hooks` field of `initialize`; undefined without any hook. */
  readonly registration: JsonObject | undefined;
  /** A hook that blocks on failure is only safe with a CLI that says it can do so. */
  readonly needsBlocking: boolean;
  readonly #callbacks = new Map<string, HookCallback>();

  constructor(options: HookOptions = {}) {
    const events = Object.entries(options).filter(([, matchers]) => matchers.length > 0);
    this.needsBlocking = events.some(([, matchers]) =>
      matchers.some((matcher) => matcher.onFailure === 'block'),
    );
    if (events.length === 0) return;
    this.registration = Object.fromEntries(
      events.map(([event, matchers]) => [event, matchers.map((each) => this.#register(each))]),
    );
  }

  async serve(request: ControlRequest, signal: AbortSignal): Promise<ControlAnswer> {
    const id = String(request['callback_id']);
    const callback = this.#callbacks.get(id);
    if (!callback) return { ok: false, error: `no hook is registered as ${id}` };
    const toolUseID = request['tool_use_id'];
    const output: unknown = await callback(
      request['input'] as HookInput,
      typeof toolUseID === 'string' ? toolUseID : undefined,
      { signal },
    );
    if (isObject(output ?? {})) return { ok: true, response: output ?? {} };
    return {
      ok: false,
      error: `hook ${id} gave ${typeof output}; give an object, {} for no opinion`,
    };
  }

  #register({ matcher, hooks, timeout, onFailure }: HookCallbackMatcher): JsonObject {
    const hookCallbackIds = hooks.map((callback) => {
      const id = `hook_${this.#callbacks.size}`;
      this.#callbacks.set(id, callback);
      return id;
    });
    return {
      ...(matcher !== undefined && { matcher }),
      hookCallbackIds,
      ...(timeout !== undefined && { timeout }),
      ...(onFailure !== undefined && { onFailure }),
    };
  }
}
