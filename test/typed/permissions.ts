import {
  type CanUseTool,
  HOOK_EVENTS,
  type HookCallback,
  type HookCallbackMatcher,
  type HookEvent,
  type HookInput,
  type HookJSONOutput,
  type PermissionResult,
  type PermissionUpdate,
  type PostToolUseHookInput,
  type PreToolUseHookInput,
  query,
  type Query,
  type StopHookInput,
  type UserPromptSubmitHookInput,
} from '@anthropic-ai/claude-agent-sdk';
import { show } from './show.ts';

export const careful: CanUseTool = async (name, input, { signal, suggestions, toolUseID }) => {
  if (signal.aborted) return { behavior: 'deny', message: 'aborted' };
  if (name === 'Bash' && typeof input.command === 'string' && input.command.includes('rm '))
    return { behavior: 'deny', message: `no (${toolUseID})`, interrupt: true };
  return { behavior: 'allow', updatedInput: input, updatedPermissions: suggestions };
};

export async function ask(name: string, input: Record<string, unknown>): Promise<PermissionResult> {
  const always: PermissionUpdate = {
    type: 'addRules',
    rules: [{ toolName: name, ruleContent: 'npm test' }],
    behavior: 'allow',
    destination: 'session',
  };
  const plan: PermissionUpdate = { type: 'setMode', mode: 'plan', destination: 'session' };
  return { behavior: 'allow', updatedInput: { ...input }, updatedPermissions: [always, plan] };
}

const protect: HookCallback = async (input, toolUseID, { signal }) => {
  const before = input as PreToolUseHookInput;
  const { file_path: path } = before.tool_input as { file_path?: string };
  show(toolUseID, signal.aborted);
  if (!path?.endsWith('.env')) return {};
  return {
    systemMessage: 'secrets stay where they are',
    hookSpecificOutput: {
      hookEventName: before.hook_event_name,
      permissionDecision: 'deny',
      permissionDecisionReason: 'no secrets',
    },
  };
};

const narrow: HookCallback = async (input) => {
  if (input.hook_event_name === 'PreToolUse')
    return {
      hookSpecificOutput: {
        hookEventName: 'PreToolUse',
        permissionDecision: 'allow',
        updatedInput: { ...(input.tool_input as object), name: input.tool_name },
      },
    };
  if (input.hook_event_name === 'PostToolUse') {
    show(input.tool_name.length, input.tool_response, input.cwd, input.transcript_path);
    return { continue: true, suppressOutput: true };
  }
  if (input.hook_event_name === 'PostToolUseFailure') show(input.tool_name, input.error.length);
  if (input.hook_event_name === 'Stop')
    return input.stop_hook_active ? {} : { decision: 'block', reason: 'go on' };
  if (input.hook_event_name === 'UserPromptSubmit')
    return {
      hookSpecificOutput: { hookEventName: 'UserPromptSubmit', additionalContext: input.prompt },
    };
  if (input.hook_event_name === 'SessionStart') show(input.source === 'resume');
  if (input.hook_event_name === 'SessionEnd') show(input.reason);
  if (input.hook_event_name === 'SubagentStart') show(input.agent_id.length, input.agent_type);
  if (input.hook_event_name === 'SubagentStop') show(input.agent_id, input.stop_hook_active);
  if (input.hook_event_name === 'PreCompact') show(input.trigger, input.custom_instructions);
  if (input.hook_event_name === 'PermissionRequest') show(input.permission_suggestions?.length);
  if (input.hook_event_name === 'Notification') return { async: true };
  return { async: true, asyncTimeout: 5 };
};

async function plain(
  input: HookInput,
  toolUseID: string | undefined,
  { signal }: { signal: AbortSignal },
): Promise<HookJSONOutput> {
  const output: HookJSONOutput = { continue: !signal.aborted };
  if (toolUseID !== undefined) output.stopReason = input.session_id;
  return output;
}

export const submitted = ({ prompt }: UserPromptSubmitHookInput): number => prompt.length;
export const stopped = ({ stop_hook_active }: StopHookInput): boolean => stop_hook_active;
export const answered = ({ tool_response }: PostToolUseHookInput): unknown => tool_response;

const hooks: Partial<Record<HookEvent, HookCallbackMatcher[]>> = {
  PreToolUse: [{ matcher: 'Write|Edit', hooks: [protect, narrow], timeout: 5 }],
};
hooks.Stop = [{ hooks: [plain] }];
for (const event of HOOK_EVENTS) hooks[event] ??= [{ hooks: [narrow] }];

export const run = (): Query =>
  query({
    prompt: 'x',
    options: { canUseTool: (name, input) => ask(name, input), hooks, permissionMode: 'default' },
  });

export const inline = (): Query =>
  query({
    prompt: 'x',
    options: {
      hooks: {
        PreToolUse: [{ matcher: 'Bash', hooks: [async ({ session_id: id }) => (show(id), {})] }],
      },
      onElicitation: async ({ mode, serverName }) =>
        mode === 'url' ? { action: 'cancel' } : { action: 'accept', content: { serverName } },
    },
  });
