import {
  archiveSession,
  type CanUseTool,
  deleteSession,
  EXIT_REASONS,
  forkSession,
  type ForkSessionResult,
  getSubagentMessages,
  type HookInput,
  importSessionToStore,
  InMemorySessionStore,
  listSubagents,
  type OnUserDialog,
  type Options,
  type Query,
  renameSession,
  type SDKControlReadFileResponse,
  type SDKMessage,
  type SdkPluginConfig,
  type SessionMessage,
  type SessionMutationOptions,
  SYSTEM_PROMPT_DYNAMIC_BOUNDARY,
  tagSession,
  type ThinkingAdaptive,
  unarchiveSession,
} from '@anthropic-ai/claude-agent-sdk';
import { show } from './show.ts';

/** Everything that can be done with a session that does not run. */
export async function tidy(id: string, dir: string): Promise<ForkSessionResult> {
  const where: SessionMutationOptions = { dir };
  await renameSession(id, 'Moon', where);
  await tagSession(id, 'blue', where);
  await tagSession(id, null, where);
  await archiveSession(id, where);
  await unarchiveSession(id, where);
  const store = new InMemorySessionStore();
  await importSessionToStore(id, store, { dir });
  for (const agent of await listSubagents(id, where)) {
    const messages: SessionMessage[] = await getSubagentMessages(id, agent, { dir, limit: 10 });
    show(messages.length);
  }
  const fork = await forkSession(id, { dir, title: 'Mars' });
  await deleteSession(id, where);
  return fork;
}

/** Leaves the decision to another client, unless a rule of the user asks for it. */
const decide: CanUseTool = async (tool, input, { matchedAskRule, defaultToNo, requestId }) => {
  if (matchedAskRule === undefined) return null;
  show(tool, matchedAskRule.toolName, matchedAskRule.ruleContent ?? '', defaultToNo, requestId);
  return { behavior: 'allow', updatedInput: input };
};

const dialog: OnUserDialog = async ({ dialogKind, payload }, { signal }) =>
  signal.aborted
    ? { behavior: 'cancelled' }
    : { behavior: 'completed', result: [dialogKind, payload] };

const plugin: SdkPluginConfig = { type: 'local', path: './p', skipMcpDiscovery: true };
const thinking: ThinkingAdaptive = { type: 'adaptive' };

export const options: Options = {
  canUseTool: decide,
  onUserDialog: dialog,
  supportedDialogKinds: ['color'],
  plugins: [plugin],
  pluginDelivery: 'initialize',
  thinking,
  verbatimPrompts: true,
  toolConfig: { askUserQuestion: { previewFormat: 'html' } },
  systemPrompt: ['Fixed.', SYSTEM_PROMPT_DYNAMIC_BOUNDARY, 'Changing.'],
};
options.systemPrompt = { type: 'custom', prompt: 'Brief.', snapshot: true };

export async function inspect(run: Query): Promise<void> {
  const file: SDKControlReadFileResponse | null = await run.readFile('/x', { maxBytes: 10 });
  show(file?.contents, file?.absPath);
  const moved: boolean = await run.backgroundTasks();
  await run.setMaxThinkingTokens(1000, 'summarized');
  await run.reloadPlugins({ addPlugins: [plugin] });
  show(moved, (await run.reloadSkills()).skills.length, EXIT_REASONS.length);
}

export function describe(message: SDKMessage): string {
  if (message.type === 'rate_limit_event') return message.rate_limit_info.status;
  if (message.type === 'prompt_suggestion') return message.suggestion;
  if (message.type === 'tool_use_summary') return message.preceding_tool_use_ids.join();
  if (message.type === 'auth_status') return message.output.join();
  if (message.type !== 'system') return message.type;
  if (message.subtype === 'commands_changed') return message.commands.map((c) => c.name).join();
  if (message.subtype === 'notification') return message.text;
  if (message.subtype === 'plugin_install') return message.status;
  if (message.subtype === 'files_persisted') return message.files.map((f) => f.filename).join();
  if (message.subtype === 'mirror_error') return message.error;
  return message.subtype;
}

export function name(input: HookInput): string {
  if (input.hook_event_name === 'CwdChanged') return input.new_cwd;
  if (input.hook_event_name === 'FileChanged') return input.file_path;
  if (input.hook_event_name === 'TaskCompleted') return input.task_subject;
  if (input.hook_event_name === 'WorktreeRemove') return input.worktree_path;
  return input.hook_event_name;
}
