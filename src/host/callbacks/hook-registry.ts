import { isObject, type JsonObject } from '../../json.ts';
import type {
  HookCallback,
  HookCallbackMatcher,
  HookInput,
  HookOptions,
} from '../sdk-types/hook-types.ts';
import type { ControlResponse, ControlRequest } from '../../wire/control-peer.ts';

/** The call of a SessionEnd hook: a CLI makes it when it leaves, and may wait for no answer. */
export const isSessionEndHook = ({ subtype, input }: ControlRequest): boolean =>
  subtype === 'hook_callback' && isObject(input) && input['hook_event_name'] === 'SessionEnd';

/** The hooks of one session: their registration for `initialize`, and who is called by which id. */
export class HookRegistry {
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

  async serve(request: ControlRequest, signal: AbortSignal): Promise<ControlResponse> {
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
