import type { Case, Sdk, SdkRun } from './run-case.ts';

const method = (name: string, ...args: readonly unknown[]): Case => ({
  name: args.length === 0 ? name : `${name}(${args.map((arg) => JSON.stringify(arg)).join(', ')})`,
  method: (run) => {
    const call = run[name];
    if (!call) throw new Error(`${name} is missing`);
    return call.apply(run, [...args]);
  },
});

const refused = (subtype: string, given: Case): Case => ({
  ...given,
  name: `${given.name}, refused`,
  refuse: subtype,
});

/** Ends a run whose CLI has started; before that, our host does not start one. */
const ended = (name: string, end: (run: SdkRun) => unknown): Case => ({
  name,
  method: async (run) => {
    await run['initializationResult']?.();
    await end(run);
  },
});

const USAGE = 'usage_EXPERIMENTAL_MAY_CHANGE_DO_NOT_RELY_ON_THIS_API_YET';

async function* messages(): AsyncGenerator<unknown, void, undefined> {
  yield {
    type: 'user',
    session_id: '',
    parent_tool_use_id: null,
    message: { role: 'user', content: 'more' },
  };
}

/** Programs that call one method of a query. */
export const METHOD_CASES: readonly Case[] = [
  method('interrupt'),
  method('interrupt', { cancelQueued: true }),
  method('setPermissionMode', 'plan'),
  refused('set_permission_mode', method('setPermissionMode', 'plan')),
  method('setMcpPermissionModeOverride', 's', 'auto'),
  method('setMcpPermissionModeOverride', 's', null),
  method('setModel', 'sonnet'),
  method('setModel'),
  method('setMaxThinkingTokens', 1000),
  method('setMaxThinkingTokens', null),
  method('setMaxThinkingTokens', 1000, 'summarized'),
  method('setMaxThinkingTokens', 1000, null),
  method('applyFlagSettings', { effortLevel: 'high', model: null }),
  method('updateSettings', 'userSettings', { a: 1 }),
  method('initializationResult'),
  method('reinitialize'),
  method('supportedCommands'),
  method('supportedModels'),
  method('supportedAgents'),
  method('accountInfo'),
  method('mcpServerStatus'),
  method('getContextUsage'),
  method('getContextUsage', { detail: 'summary' }),
  method(USAGE),
  method(USAGE, { skipBehaviors: true }),
  method('readFile', '/x'),
  method('readFile', '/x', { maxBytes: 10, encoding: 'base64' }),
  refused('read_file', method('readFile', '/x')),
  method('reloadPlugins'),
  method('reloadPlugins', {
    holdOnCacheImpact: true,
    addPlugins: [{ type: 'local', path: '/p' }],
    refuseIfBusy: true,
  }),
  method('reloadSkills'),
  method('reloadOutputStyles'),
  method('rewindFiles', 'm-1'),
  method('rewindFiles', 'm-1', { dryRun: true }),
  method('seedReadState', '/x', 5),
  method('reconnectMcpServer', 's'),
  refused('mcp_reconnect', method('reconnectMcpServer', 's')),
  method('toggleMcpServer', 's', false),
  method('readMcpResource', 's', 'ui://x'),
  method('setMcpServers', { s: { command: 'node', args: ['x.js'] } }),
  {
    name: 'setMcpServers in this process',
    method: (run: SdkRun, { createSdkMcpServer }: Sdk) =>
      run['setMcpServers']?.({ calc: createSdkMcpServer({ name: 'calc', timeout: 5000 }) }),
  },
  { name: 'streamInput', method: (run: SdkRun) => run['streamInput']?.(messages()) },
  method('stopTask', 't-1'),
  method('backgroundTasks'),
  method('backgroundTasks', 'toolu_1'),
  { ...method('backgroundTasks'), name: 'backgroundTasks, response {}', response: {} },
  {
    ...method('backgroundTasks'),
    name: 'backgroundTasks, none',
    response: { backgrounded: false },
  },
  refused('background_tasks', method('backgroundTasks')),
  method('cancelAsyncMessage', 'm-1'),
  ended('close', (run) => run.close()),
  ended('return', (run) => run['return']?.()),
  ended('asyncDispose', (run) => (run as unknown as AsyncDisposable)[Symbol.asyncDispose]()),
];
