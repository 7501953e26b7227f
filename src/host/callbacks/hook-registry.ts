import { isObject, type JsonObject, omitUndefined } from '../../json.ts';
import type {
  HookCallback,
  HookCallbackMatcher,
  HookInput,
  HookOptions,
} from '../sdk-types/hook-types.ts';
import type { ControlResponse, ControlRequest } from '../../wire/control-peer.ts';

/**
 * Whether a request calls a SessionEnd hook. A CLI sends it while it exits and may not wait for the
 * response.
 */
export const isSessionEndHook = ({ subtype, input }: ControlRequest): boolean =>
  subtype === 'hook_callback' && isObject(input) && input['hook_event_name'] === 'SessionEnd';

/**
 * The hooks of one session: their registration for `initialize`, and the callback behind each id.
 */
export class HookRegistry {
  /** The `hooks` field of `initialize`; undefined without hooks. */
  readonly registration: JsonObject | undefined;
  /**
   * Whether a hook has `onFailure: 'block'`. The session then requires a CLI that supports it:
   * another CLI would run the action although the hook failed.
   */
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
    if (!callback) return { ok: false, error: `hook "${id}" not found; it was never registered` };
    const toolUseID = request['tool_use_id'];
    const output: unknown = await callback(
      request['input'] as HookInput,
      typeof toolUseID === 'string' ? toolUseID : undefined,
      { signal },
    );
    if (isObject(output ?? {})) return { ok: true, response: output ?? {} };
    return {
      ok: false,
      error: `hook "${id}" returned ${typeof output}: expected an object, {} to change nothing`,
    };
  }

  #register({ matcher, hooks, timeout, onFailure }: HookCallbackMatcher): JsonObject {
    const hookCallbackIds = hooks.map((callback) => {
      const id = `hook_${this.#callbacks.size}`;
      this.#callbacks.set(id, callback);
      return id;
    });
    return omitUndefined<JsonObject>({ matcher, hookCallbackIds, timeout, onFailure });
  }
}
