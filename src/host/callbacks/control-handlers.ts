import { isObject } from '../../json.ts';
import type { ControlHandler } from '../session/control-link.ts';
import { answerElicitation } from './elicitation.ts';
import type { HookRegistry } from './hook-registry.ts';
import type { McpBridge } from './mcp-bridge.ts';
import type { CallbackOptions } from '../options/options.ts';
import type { PermissionDecision } from '../sdk-types/permission-types.ts';
import { answerCanUseTool } from './permission-handler.ts';

export interface ServeParts {
  readonly bridge: McpBridge;
  readonly hooks: HookRegistry;
  readonly onDecision: (decision: PermissionDecision) => void;
}

/** Who answers which request of the CLI. */
export function createControlHandler(
  { canUseTool, ask, approvalEdits, onElicitation, onUserDialog }: CallbackOptions,
  { bridge, hooks, onDecision }: ServeParts,
): ControlHandler {
  const permissions = {
    ...(canUseTool && { canUseTool }),
    ...(ask && { ask }),
    ...(approvalEdits !== undefined && { approvalEdits }),
    onDecision,
  };
  const elicitation = { ...(onElicitation && { onElicitation }), ...(ask && { ask }) };
  const serveOther: ControlHandler = async (request, context) => {
    switch (request.subtype) {
      case 'can_use_tool':
        return answerCanUseTool(request, context, permissions);
      case 'hook_callback':
        return hooks.serve(request, context.signal);
      case 'elicitation':
        return answerElicitation(request, context, elicitation);
      case 'request_user_dialog': {
        // Without a callback it stays unanswered, as the official SDK leaves it to other surfaces.
        if (!onUserDialog) return undefined;
        const response = await onUserDialog(request, { signal: context.signal });
        if (isObject(response)) return { ok: true, response };
        return { ok: false, error: 'onUserDialog must give an object with a behavior' };
      }
      default:
        return {
          ok: false,
          error: `Unsupported control request subtype: ${request.subtype}`,
          errorCode: 'unsupported_request',
        };
    }
  };
  // Calls of tools are many and short: nothing stands between them and their server.
  return (request, context) =>
    request.subtype === 'mcp_message'
      ? bridge.serve(request, context)
      : serveOther(request, context);
}
