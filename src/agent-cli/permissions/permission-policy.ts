import type { PolicyMode } from '../command-line/flags.ts';
import {
  allows,
  type Candidate,
  forbids,
  formatRule,
  type PermissionRule,
} from './permission-rules.ts';

/** What is known about a call when it is decided. */
export interface PolicyInput extends Candidate {
  /** Changes nothing: plan mode lets it through, and built-in ones need no permission. */
  readonly readOnly: boolean;
  /** One of our own tools, not a server's. */
  readonly builtin: boolean;
  /** Writes files inside the working directories: what `acceptEdits` accepts. */
  readonly edit: boolean;
  /** Runs in a sandbox whose settings let commands run without a further permission. */
  readonly enclosed?: boolean;
  /** Reaches outside of the working directories. */
  readonly outside?: string | undefined;
}

export interface Policy {
  readonly mode: PolicyMode;
  readonly allow: readonly PermissionRule[];
  readonly deny: readonly PermissionRule[];
  readonly ask: readonly PermissionRule[];
}

/** `source` and `reason` are for people and for `tool_result_meta`. */
export interface Decision {
  readonly behavior: 'allow' | 'deny' | 'ask';
  readonly reason: 'rule' | 'mode' | 'workingDir' | 'safe' | 'sandbox' | 'default';
  readonly message?: string;
  readonly rule?: PermissionRule;
}

/**
 * May this call run? Deny rules come first and hold in every mode, then ask rules, the mode, the
 * allow rules. A server's tool that no rule and no mode allows is asked about, read-only or not
 * (S80): its annotation is the server's word, not the user's.
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
      message: `${call.tool} changes things, and the session is in plan mode.`,
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

function orDeny(policy: Policy, call: PolicyInput, decision: Decision): Decision {
  if (policy.mode !== 'dontAsk') return decision;
  const message = `${call.tool} was not allowed beforehand, and the session asks nobody (dontAsk).`;
  return { behavior: 'deny', reason: 'mode', message };
}

/** A change of the policy that a host sends with its permission, or that we suggest to it. */
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

/** The policy after a change; directories are no part of it. */
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
