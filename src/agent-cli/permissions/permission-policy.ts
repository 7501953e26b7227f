import type { PolicyMode } from '../command-line/flags.ts';
import {
  allows,
  type Candidate,
  forbids,
  formatRule,
  type PermissionRule,
} from './permission-rules.ts';

/** The facts about a call on which a decision is based. */
export interface PolicyInput extends Candidate {
  /** The call changes nothing: plan mode allows it, and a built-in tool needs no permission. */
  readonly readOnly: boolean;
  /** A tool of this CLI, not of an MCP server. */
  readonly builtin: boolean;
  /**
   * The call writes files inside the working directories, which the mode `acceptEdits` allows.
   * False for a file that other programs run, such as `.git/config`.
   */
  readonly edit: boolean;
  /** The call runs in a sandbox whose settings allow commands without a permission request. */
  readonly enclosed?: boolean;
  /** The path outside of the working directories that the call uses. */
  readonly outside?: string | undefined;
}

export interface Policy {
  readonly mode: PolicyMode;
  readonly allow: readonly PermissionRule[];
  readonly deny: readonly PermissionRule[];
  readonly ask: readonly PermissionRule[];
}

/** Whether a call may run. */
export interface Decision {
  readonly behavior: 'allow' | 'deny' | 'ask';
  /** The kind of check that decided, for the host. */
  readonly reason: 'rule' | 'mode' | 'workingDir' | 'safe' | 'sandbox' | 'default';
  readonly message?: string;
  readonly rule?: PermissionRule;
}

/**
 * Decides whether a call may run: deny rules first, which apply in every mode, then ask rules, the
 * mode, and the allow rules. A server's tool that no rule and no mode allows needs a permission
 * even if it is marked as read-only (S80): the server sets that mark, and the user may not trust
 * it.
 */
export function evaluatePolicy(call: PolicyInput, policy: Policy): Decision {
  const denied = policy.deny.find((rule) => forbids(rule, call));
  if (denied) {
    return {
      behavior: 'deny',
      reason: 'rule',
      rule: denied,
      message: `${call.tool} is denied by the rule ${formatRule(denied)}.`,
    };
  }
  const asked = policy.ask.find((rule) => forbids(rule, call));
  if (asked) return orDeny(policy, call, { behavior: 'ask', reason: 'rule', rule: asked });
  if (policy.mode === 'bypassPermissions') return { behavior: 'allow', reason: 'mode' };
  if (policy.mode === 'plan' && !call.readOnly) {
    return orDeny(policy, call, {
      behavior: 'ask',
      reason: 'mode',
      message: `${call.tool} is not read-only, and the session is in plan mode.`,
    });
  }
  const allowed = policy.allow.find((rule) => allows(rule, call));
  if (allowed) return { behavior: 'allow', reason: 'rule', rule: allowed };
  if (call.outside !== undefined) {
    return orDeny(policy, call, {
      behavior: 'ask',
      reason: 'workingDir',
      message: `${call.outside} is outside of the working directories.`,
    });
  }
  if (call.enclosed) return { behavior: 'allow', reason: 'sandbox' };
  if (call.builtin && call.readOnly) return { behavior: 'allow', reason: 'safe' };
  if (policy.mode === 'acceptEdits' && call.edit) return { behavior: 'allow', reason: 'mode' };
  return orDeny(policy, call, { behavior: 'ask', reason: 'default' });
}

/** The decision, or a denial in the mode `dontAsk`, which sends no permission requests. */
function orDeny(policy: Policy, call: PolicyInput, decision: Decision): Decision {
  if (policy.mode !== 'dontAsk') return decision;
  const message = `${call.tool} is denied: no rule allows it, and permission mode dontAsk sends no permission requests.`;
  return { behavior: 'deny', reason: 'mode', message };
}

/** A change of the policy: the host sends it with a permission, and the CLI suggests some. */
export type PolicyUpdate =
  | {
      readonly type: 'addRules' | 'replaceRules' | 'removeRules';
      readonly behavior: 'allow' | 'deny' | 'ask';
      readonly rules: readonly PermissionRule[];
    }
  | { readonly type: 'setMode'; readonly mode: PolicyMode }
  | {
      readonly type: 'addDirectories' | 'removeDirectories';
      readonly directories: readonly string[];
    };

/** The policy after an update. Updates of directories do not change it. */
export function applyUpdate(policy: Policy, update: PolicyUpdate): Policy {
  if (update.type === 'setMode') return { ...policy, mode: update.mode };
  if (!('rules' in update)) return policy;
  const { behavior, rules } = update;
  const same = (a: PermissionRule, b: PermissionRule): boolean =>
    a.tool === b.tool && a.content === b.content;
  const kept = policy[behavior].filter((rule) => !rules.some((other) => same(rule, other)));
  const next = {
    addRules: [...kept, ...rules],
    replaceRules: [...rules],
    removeRules: kept,
  }[update.type];
  return { ...policy, [behavior]: next };
}
