import { DuolaneError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { HOOK_EVENTS } from '../sdk-types/hook-types.ts';
import { checkOptionKinds } from './option-kinds.ts';
import { describeValue } from './describe-value.ts';
import type { SessionOptions } from './options.ts';
import type { ParsedServers } from './mcp-servers-option.ts';

const invalid = (message: string): DuolaneError => new DuolaneError('invalid', message);

/** The names that older texts use for today's options. */
const RENAMED = { mcp_servers: 'mcpServers', system_prompt: 'systemPrompt' } as const;

/** Options of the official SDK that we have no way to carry out. */
const MISSING = ['toolConfig', 'verbatimPrompts', 'pluginDelivery'] as const;

/** The options under today's names; throws `invalid` for what cannot be meant, saying the fix, and `unsupported` for what is not there. */
export function validateOptions(given: SessionOptions): SessionOptions {
  if (!isObject(given)) throw invalid(`options must be an object, got ${describeValue(given)}`);
  let options = given;
  for (const [old, name] of Object.entries(RENAMED)) {
    const value = (given as Readonly<Record<string, unknown>>)[old];
    if (value === undefined) continue;
    if (name in given) throw invalid(`${old} is ${name} under an older name; give one of them`);
    const { [old]: _, ...rest } = options as Readonly<Record<string, unknown>>;
    options = { ...rest, [name]: value };
  }
  for (const name of MISSING)
    if ((given as Readonly<Record<string, unknown>>)[name] !== undefined)
      throw new DuolaneError('unsupported', `the option ${name} is not there; leave it out`);
  checkOptionKinds(options);
  checkPermissions(options);
  checkTogether(options);
  for (const event of Object.keys(options.hooks ?? {})) {
    if (!(HOOK_EVENTS as readonly string[]).includes(event))
      throw invalid(`there is no hook event ${event}; HOOK_EVENTS lists them`);
  }
  return options;
}

function checkPermissions(options: SessionOptions): void {
  const { canUseTool, permissionMode, permissionPromptToolName, permissionPrompts } = options;
  // With a mode that decides without asking it is no contradiction: the mode may be changed later.
  if (canUseTool && permissionPromptToolName !== undefined && permissionPromptToolName !== 'stdio')
    throw invalid(
      `canUseTool would never be asked: permissionPromptToolName sends the question to ${permissionPromptToolName}; give one of them`,
    );
  if (canUseTool && permissionPrompts === 'none')
    throw invalid(`canUseTool would never be asked: permissionPrompts is 'none'; drop one of them`);
  if (permissionMode === 'bypassPermissions' && options.allowDangerouslySkipPermissions === false)
    throw invalid(
      `permissionMode 'bypassPermissions' needs allowDangerouslySkipPermissions: true, got false`,
    );
}

function checkTogether(options: SessionOptions): void {
  const { model, fallbackModel, resume, sandbox, settings } = options;
  if (resume !== undefined && options.continue)
    throw invalid('resume names a session and continue takes the last one; give one of them');
  if (fallbackModel !== undefined && fallbackModel === model)
    throw invalid(`fallbackModel is the model itself, ${model}; give another one, or none`);
  if (sandbox && typeof settings === 'string' && !settings.trimStart().startsWith('{'))
    throw invalid(
      `sandbox cannot be joined to settings in a file, ${settings}; give the settings as an object, or the sandbox in the file`,
    );
}

/** Whether the CLI may need an answer of ours during a turn. */
export const isBidirectional = (options: SessionOptions, servers: ParsedServers): boolean =>
  servers.sdk.length > 0 ||
  Object.values(options.hooks ?? {}).some((matchers) => matchers.length > 0) ||
  [options.canUseTool, options.ask, options.onElicitation, options.onUserDialog].some(
    (callback) => callback !== undefined,
  );
