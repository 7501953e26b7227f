import { asObject, asString, isObject } from '../../json.ts';
import type { ControlHandler } from '../../wire/control-link.ts';
import { answerElicitation } from './elicitation.ts';
import type { HookRegistry } from './hook-registry.ts';
import type { McpBridge } from './mcp-bridge.ts';
import type { ControlRequest } from '../../wire/control-peer.ts';
import type { CallbackOptions, UserDialogRequest } from '../options/options.ts';
import type { PermissionDecision } from '../sdk-types/permission-types.ts';
import { answerCanUseTool } from './permission-handler.ts';

export interface ServeParts {
  readonly bridge: McpBridge;
  readonly hooks: HookRegistry;
  readonly onDecision: (decision: PermissionDecision) => void;
}

function dialogOf(request: ControlRequest): UserDialogRequest {
  const { dialog_kind: kind, payload, tool_use_id: id } = request;
  return {
    dialogKind: asString(kind),
    payload: asObject(payload),
    ...(typeof id === 'string' && { toolUseID: id }),
  };
}

/**
 * Creates the handler of all requests of the CLI: it selects the callback by the request's subtype.
 */
export function createControlHandler(
  { canUseTool, ask, approvalEdits, onElicitation, onUserDialog }: CallbackOptions,
  { bridge, hooks, onDecision }: ServeParts,
): ControlHandler {
  const permissions = { canUseTool, ask, approvalEdits, onDecision };
  const serveOther: ControlHandler = async (request, context) => {
    switch (request.subtype) {
      case 'can_use_tool':
        return answerCanUseTool(request, context, permissions);
      case 'hook_callback':
        return hooks.serve(request, context.signal);
      case 'elicitation':
        return answerElicitation(request, context, { onElicitation, ask });
      case 'request_user_dialog': {
        // Without a callback the request stays unanswered, as in the official SDK: another client
        // may answer it.
        if (!onUserDialog) return undefined;
        const { signal, id: requestId } = context;
        const response: unknown = await onUserDialog(dialogOf(request), { signal, requestId });
        if (isObject(response)) return { ok: true, response };
        return { ok: false, error: 'onUserDialog must return an object with a behavior' };
      }
      default:
        return {
          ok: false,
          error: `Unsupported control request subtype: ${request.subtype}`,
          errorCode: 'unsupported_request',
        };
    }
  };
  // Tool calls are frequent and short, so they skip the async function above: it would add a
  // promise.
  return (request, context) =>
    request.subtype === 'mcp_message'
      ? bridge.serve(request, context)
      : serveOther(request, context);
}
