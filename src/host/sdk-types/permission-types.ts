export type PermissionMode =
  | 'default'
  | 'acceptEdits'
  | 'bypassPermissions'
  | 'plan'
  | 'dontAsk'
  | 'auto';

export type PermissionBehavior = 'allow' | 'deny' | 'ask';

/** `{ toolName: 'Bash', ruleContent: 'npm test' }` is the rule `Bash(npm test)`. */
export type PermissionRuleValue = { toolName: string; ruleContent?: string };

/**
 * Where the CLI keeps a changed rule: `session` lasts as long as the session, the others are
 * settings.
 */
export type PermissionUpdateDestination =
  | 'userSettings'
  | 'projectSettings'
  | 'localSettings'
  | 'session'
  | 'cliArg';

/**
 * A change of the session's permission rules. The CLI suggests them and accepts them in a result.
 */
export type PermissionUpdate = { destination: PermissionUpdateDestination } & (
  | {
      type: 'addRules' | 'replaceRules' | 'removeRules';
      rules: PermissionRuleValue[];
      behavior: PermissionBehavior;
    }
  | { type: 'setMode'; mode: PermissionMode }
  | { type: 'addDirectories' | 'removeDirectories'; directories: string[] }
);

export type PermissionDecisionClassification = 'user_temporary' | 'user_permanent' | 'user_reject';

/** The decision that `canUseTool` returns. */
export type PermissionResult =
  | {
      behavior: 'allow';
      /** Replaces the tool's input; without it the tool runs with the model's input. */
      updatedInput?: Record<string, unknown> | undefined;
      updatedPermissions?: PermissionUpdate[] | undefined;
      toolUseID?: string;
      decisionClassification?: PermissionDecisionClassification;
    }
  | {
      behavior: 'deny';
      /** The reason, which the model sees. */
      message: string;
      /** True also ends the turn. */
      interrupt?: boolean;
      toolUseID?: string;
      decisionClassification?: PermissionDecisionClassification;
    };

export interface CanUseToolOptions {
  /** Aborts when the CLI no longer waits: after an interrupt, or when the session closes. */
  readonly signal: AbortSignal;
  readonly toolUseID: string;
  readonly requestId: string;
  /** Rule changes after which the CLI would not ask again; return those to apply. */
  readonly suggestions?: PermissionUpdate[];
  readonly blockedPath?: string;
  readonly decisionReason?: string;
  /** The kind of the reason, such as `rule`, `mode`, `hook` or `workingDir`. */
  readonly decisionReasonType?: string;
  /** The rule of the settings that makes the CLI ask. */
  readonly matchedAskRule?: {
    readonly source: string;
    readonly toolName: string;
    readonly ruleContent?: string;
  };
  /** The tool is a question to the user: nothing may answer it without a person. */
  readonly requiresUserInteraction?: boolean;
  /** Do not offer a rule that allows the tool for ever. */
  readonly suppressAlwaysAllowRule?: boolean;
  /** The choice that a dialog selects first should be no. */
  readonly defaultToNo?: boolean;
  readonly title?: string;
  readonly displayName?: string;
  readonly description?: string;
  readonly agentID?: string;
  readonly mcpServer?: { readonly name: string; readonly source: string };
}

/**
 * Decides whether a tool may run. The host sets no timer: the callback may wait for a person as
 * long as it needs. If it throws, the tool is denied with the error's message. null leaves the
 * request open, for another client of the CLI.
 */
export type CanUseTool = (
  toolName: string,
  input: Record<string, unknown>,
  options: CanUseToolOptions,
) => Promise<PermissionResult | null> | PermissionResult | null;

/** A permission decision of this session: `by` names the option that made it. */
export interface PermissionDecision {
  readonly toolName: string;
  readonly toolUseID: string;
  readonly behavior: 'allow' | 'deny';
  readonly by: 'canUseTool' | 'ask' | 'nobody';
  readonly reason: string;
}
