import { DuolaneError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { HOOK_EVENTS } from '../sdk-types/hook-types.ts';
import { checkOptionKinds } from './option-kinds.ts';
import { describeValue } from './describe-value.ts';
import type { SessionOptions } from './options.ts';
import type { ParsedServers } from './mcp-servers-option.ts';

const invalid = (message: string): DuolaneError => new DuolaneError('invalid', message);

/** Names that older documentation of the official SDK uses, and the current names. */
const RENAMED = { mcp_servers: 'mcpServers', system_prompt: 'systemPrompt' } as const;

/**
 * The options under their current names. Throws `invalid` for a wrong value or a contradiction,
 * with the fix in the message.
 */
export function validateOptions(given: SessionOptions): SessionOptions {
  if (!isObject(given)) throw invalid(`options must be an object, got ${describeValue(given)}`);
  let options = given;
  for (const [old, name] of Object.entries(RENAMED)) {
    const value = (given as Readonly<Record<string, unknown>>)[old];
    if (value === undefined) continue;
    if (name in given)
      throw invalid(`options "${old}" and "${name}" are the same; set "${name}" only`);
    const { [old]: _, ...rest } = options as Readonly<Record<string, unknown>>;
    options = { ...rest, [name]: value };
  }
  checkOptionKinds(options);
  checkPermissions(options);
  checkTogether(options);
  for (const event of Object.keys(options.hooks ?? {})) {
    if (!(HOOK_EVENTS as readonly string[]).includes(event))
      throw invalid(`unknown hook event "${event}"; HOOK_EVENTS lists the events`);
  }
  return options;
}

function checkPermissions(options: SessionOptions): void {
  const { canUseTool, permissionMode, permissionPromptToolName, permissionPrompts } = options;
  // A permission mode that never asks is accepted with canUseTool: `setPermissionMode` may change
  // it later.
  if (canUseTool && permissionPromptToolName !== undefined && permissionPromptToolName !== 'stdio')
    throw invalid(
      `canUseTool would never be called: permissionPromptToolName sends the question to "${permissionPromptToolName}"; set only one of them`,
    );
  if (canUseTool && permissionPrompts === 'none')
    throw invalid(
      `canUseTool would never be called: permissionPrompts is 'none'; set only one of them`,
    );
  if (permissionMode === 'bypassPermissions' && options.allowDangerouslySkipPermissions === false)
    throw invalid(
      `permissionMode 'bypassPermissions' needs allowDangerouslySkipPermissions: expected true, got false`,
    );
}

function checkTogether(options: SessionOptions): void {
  const { model, fallbackModel, resume, sandbox, settings } = options;
  if (resume !== undefined && options.continue)
    throw invalid('resume names a session and continue takes the last one; set only one of them');
  if (options.supportedDialogKinds?.length && !options.onUserDialog)
    throw invalid(
      'supportedDialogKinds needs onUserDialog: the CLI would wait for answers that nothing gives; set both or none',
    );
  if (fallbackModel !== undefined && fallbackModel === model)
    throw invalid(`fallbackModel is the same as model, "${model}"; set another one or remove it`);
  if (sandbox && typeof settings === 'string' && !settings.trimStart().startsWith('{'))
    throw invalid(
      `sandbox cannot be merged into the settings file "${settings}"; pass the settings as an object, or put the sandbox into the file`,
    );
}

/**
 * Whether the CLI may send requests to the host during a turn, which need stdin for the responses.
 */
export const isBidirectional = (options: SessionOptions, servers: ParsedServers): boolean =>
  servers.sdk.length > 0 ||
  Object.values(options.hooks ?? {}).some((matchers) => matchers.length > 0) ||
  [options.canUseTool, options.ask, options.onElicitation, options.onUserDialog].some(
    (callback) => callback !== undefined,
  );
