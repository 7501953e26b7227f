import { isDeepStrictEqual } from 'node:util';
import type { AgentEvent, Frame } from '../event/types.ts';
import { asObject, type JsonObject } from '../json.ts';

/**
 * Makes the calls in the log those that run: a person, a callback or a hook may have changed the
 * input of the model. A later run that finishes the call must use the changed one.
 */
export function effectiveCalls(): (event: AgentEvent) => readonly AgentEvent[] {
  const called = new Map<string, Extract<AgentEvent, { readonly type: 'tool.called' }>>();
  const changed = new Map<string, unknown>();
  return (event) => {
    if (event.type === 'tool.called') {
      const { callId, args } = event;
      // The control lane may overtake the message lane.
      const real = { ...event, args: changed.get(callId) ?? args };
      called.set(callId, real);
      return [real];
    }
    if (event.type !== 'frame' || event.callId === undefined) return [event];
    const args = argsIn(event.frame);
    if (args === undefined) return [event];
    changed.set(event.callId, args);
    const known = called.get(event.callId);
    if (!known || isDeepStrictEqual(known.args, args)) return [event];
    const real = { ...known, args };
    called.set(event.callId, real);
    return [event, real];
  };
}

/** The arguments in a request of the CLI to call one of our tools. */
function argsIn({ direction, data }: Frame): JsonObject | undefined {
  if (direction !== 'in') return undefined;
  const { method, params } = asObject(asObject(data['request'])['message']);
  if (method !== 'tools/call') return undefined;
  return asObject(asObject(params)['arguments']);
}
