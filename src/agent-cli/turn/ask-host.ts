import { resolve } from 'node:path';
import { errorMessage } from '../../errors.ts';
import {
  asArray,
  asObject,
  asString,
  asStrings,
  isObject,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';
import { isPermissionMode } from '../command-line/flags.ts';
import { realPath } from '../permissions/path-rules.ts';
import { applyUpdate, type Decision, type PolicyUpdate } from '../permissions/permission-policy.ts';
import type { PermissionRule } from '../permissions/permission-rules.ts';
import type { CliSession, CliSessionParts } from '../session/cli-session.ts';
import type { AgentTool, CallFacts } from '../tools/types.ts';

/** The host's decision about a call. */
export type Permission =
  | { readonly behavior: 'allow'; readonly input: JsonObject }
  | { readonly behavior: 'deny'; readonly message: string; readonly interrupt: boolean };

interface PermissionQuestion {
  readonly id: string;
  readonly tool: AgentTool;
  readonly input: JsonObject;
  readonly facts: CallFacts;
  readonly decision: Decision;
  readonly signal: AbortSignal;
}

/**
 * Asks the host with `can_use_tool` whether a call may run, without a timeout: a person may decide.
 * Everything except a valid `allow` denies the call: an error, an invalid response, a closed input.
 */
export async function askHost(
  session: CliSession,
  question: PermissionQuestion,
): Promise<Permission> {
  const { id, tool, input, facts, decision, signal } = question;
  const { server, spec } = tool;
  const request = {
    subtype: 'can_use_tool',
    tool_name: spec.name,
    ...(server && { mcp_server: { name: server.name, source: server.source } }),
    display_name: server?.title ?? spec.name,
    input,
    permission_suggestions: suggestions(spec.name, facts),
    ...omitUndefined({
      description: facts.summary,
      blocked_path: facts.outside,
      decision_reason: decision.message,
      decision_reason_type: decision.message === undefined ? undefined : decision.reason,
    }),
    tool_use_id: id,
  };
  let answer: JsonObject;
  try {
    answer = asObject(await session.waiting(() => session.parts.lane.request(request, { signal })));
  } catch (reason) {
    signal.throwIfAborted();
    const message = `The permission request failed: ${errorMessage(reason)}`;
    return { behavior: 'deny', message, interrupt: false };
  }
  if (answer['behavior'] === 'allow') {
    takeUpdates(session, answer['updatedPermissions']);
    const { updatedInput } = answer;
    return { behavior: 'allow', input: isObject(updatedInput) ? updatedInput : input };
  }
  const clear = answer['behavior'] === 'deny';
  const message = asString(
    answer['message'],
    clear
      ? 'The user denied this call.'
      : 'The call was denied: the response to the permission request is invalid.',
  );
  return { behavior: 'deny', message, interrupt: clear && answer['interrupt'] === true };
}

/**
 * Updates that the host can return as `updatedPermissions` to avoid the same request later. Each
 * covers only what the person was shown: a rule for the tool would cover every file, also outside
 * of the working directories, a further directory would include writing to it, and the mode
 * `acceptEdits` every edit. Hosts return all of them for "always allow".
 */
function suggestions(toolName: string, facts: CallFacts): JsonObject[] {
  if (facts.guarded) return [];
  const ruleContent = facts.path ? `/${facts.path.real}` : facts.command;
  // No rule is suggested for an empty command, or for one or a path with wildcards: the rule would
  // be a pattern and cover more. `rm *.log` would allow `rm -rf src a.log`.
  const wild = facts.path ? /[*?{}]/ : /\*|^\s*$/;
  const rule = { toolName, ...(ruleContent !== undefined && { ruleContent }) };
  if (ruleContent !== undefined && wild.test(ruleContent)) return [];
  return [{ type: 'addRules', rules: [rule], behavior: 'allow', destination: 'session' }];
}

function takeUpdates(session: CliSession, updates: unknown): void {
  for (const value of asArray(updates)) {
    const update = readUpdate(asObject(value), session.parts.flags.allowBypass);
    if (!update) continue;
    if ('directories' in update) changeDirectories(session.parts, update);
    else session.setPolicy(applyUpdate(session.parts.choices.policy, update));
  }
}

function changeDirectories(
  { choices, cwd }: CliSessionParts,
  update: Extract<PolicyUpdate, { directories: unknown }>,
): void {
  const named = update.directories.map((directory) => realPath(resolve(cwd, directory)));
  const others = choices.directories.filter((directory) => !named.includes(directory));
  choices.directories = update.type === 'addDirectories' ? [...others, ...named] : others;
}

/** Parses an update. Undefined: an unknown type, or a mode that the flags do not permit. */
export function readUpdate(value: JsonObject, allowBypass: boolean): PolicyUpdate | undefined {
  const { type, mode, behavior } = value;
  switch (type) {
    case 'setMode':
      if (!isPermissionMode(mode) || (mode === 'bypassPermissions' && !allowBypass))
        return undefined;
      return { type, mode };
    case 'addDirectories':
    case 'removeDirectories':
      return { type, directories: asStrings(value['directories']) };
    case 'addRules':
    case 'replaceRules':
    case 'removeRules':
      if (behavior !== 'allow' && behavior !== 'deny' && behavior !== 'ask') return undefined;
      return {
        type,
        behavior,
        rules: asArray(value['rules'])
          .map(asObject)
          // Drop allow rules with an empty pattern: without a pattern they would allow every call.
          .filter(({ ruleContent }) => behavior !== 'allow' || !isBlank(ruleContent))
          .map(readRule),
      };
    default:
      return undefined;
  }
}

const isBlank = (text: unknown): boolean => typeof text === 'string' && text.trim() === '';

const readRule = (rule: JsonObject): PermissionRule => ({
  tool: asString(rule['toolName']),
  content: asString(rule['ruleContent']) || undefined,
});
