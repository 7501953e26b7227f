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

/** Where a changed rule is kept: `session` is forgotten with it, the others are settings files. */
export type PermissionUpdateDestination =
  | 'userSettings'
  | 'projectSettings'
  | 'localSettings'
  | 'session'
  | 'cliArg';

/** A change of the session's rules, as the CLI suggests and takes it. */
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

/** What `canUseTool` answers. */
export type PermissionResult =
  | {
      behavior: 'allow';
      /** Without it the tool runs with the input it asked for. */
      updatedInput?: Record<string, unknown> | undefined;
      updatedPermissions?: PermissionUpdate[] | undefined;
      toolUseID?: string;
      decisionClassification?: PermissionDecisionClassification;
    }
  | {
      behavior: 'deny';
      /** For the model. */
      message: string;
      /** Ends the turn, too. */
      interrupt?: boolean;
      toolUseID?: string;
      decisionClassification?: PermissionDecisionClassification;
    };

export interface CanUseToolOptions {
  /** Aborts when the CLI no longer waits: interrupt, or the session closed. */
  readonly signal: AbortSignal;
  readonly toolUseID: string;
  readonly requestId: string;
  /** Changes that would make the CLI not ask again. */
  readonly suggestions?: PermissionUpdate[];
  readonly blockedPath?: string;
  readonly decisionReason?: string;
  readonly title?: string;
  readonly displayName?: string;
  readonly description?: string;
  readonly agentID?: string;
  readonly mcpServer?: { readonly name: string; readonly source: string };
}

/** May take as long as a person needs: no timer runs on our side. A throw denies, with its text. */
export type CanUseTool = (
  toolName: string,
  input: Record<string, unknown>,
  options: CanUseToolOptions,
) => Promise<PermissionResult> | PermissionResult;

/** How a tool was decided about, and by whom. */
export interface PermissionDecision {
  readonly toolName: string;
  readonly toolUseID: string;
  readonly behavior: 'allow' | 'deny';
  readonly by: 'canUseTool' | 'ask' | 'nobody';
  readonly reason: string;
}
