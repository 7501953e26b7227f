import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { verifies } from '../../../test/verifies.ts';
import { createRegistry } from '../../mcp/registry/registry.ts';
import { validateOptions } from './validate-options.ts';
import { flagsOf } from '../launch/cli-flags.ts';
import { initializeFields } from '../launch/initialize-request.ts';
import { environmentOf, launchOf, officialCli } from '../launch/cli-launch.ts';
import type { SessionOptions } from './options.ts';
import { parseMcpServers } from './mcp-servers-option.ts';

const flags = (options: SessionOptions): readonly string[] =>
  flagsOf(options, { configured: parseMcpServers(options).process }).slice(5);
const none = { hooks: undefined, sdkServers: [], manifests: {} };

describe('flags', () => {
  verifies(['S3', 'S4'], 'always select stream-json and never contain the prompt', () => {
    expect(flagsOf({}, { configured: {} })).toEqual([
      '--output-format',
      'stream-json',
      '--verbose',
      '--input-format',
      'stream-json',
    ]);
  });

  test('of the common options have the order of the official SDK', () => {
    expect(
      flags({
        thinking: { type: 'enabled', budgetTokens: 2048 },
        effort: 'low',
        maxTurns: 3,
        model: 'm',
        disallowedTools: ['WebSearch'],
        tools: [],
        mcpServers: { remote: { type: 'http', url: 'http://127.0.0.1:9/mcp' } },
        settingSources: ['project'],
        strictMcpConfig: true,
        permissionMode: 'default',
        fallbackModel: 'f',
        additionalDirectories: ['/a', '/b'],
        persistSession: false,
        extraArgs: { 'replay-user-messages': null, key: 'value' },
        settings: { includeCoAuthoredBy: false },
      }),
    ).toEqual([
      '--max-thinking-tokens=2048',
      '--effort=low',
      '--max-turns=3',
      '--model=m',
      '--disallowedTools=WebSearch',
      '--tools=',
      '--mcp-config',
      '{"mcpServers":{"remote":{"type":"http","url":"http://127.0.0.1:9/mcp"}}}',
      '--setting-sources=project',
      '--strict-mcp-config',
      '--permission-mode=default',
      '--fallback-model=f',
      '--add-dir=/a',
      '--add-dir=/b',
      '--no-session-persistence',
      '--replay-user-messages',
      '--key',
      'value',
      '--settings',
      '{"includeCoAuthoredBy":false}',
    ]);
  });

  verifies(['S77', 'S78', 'S81'], 'pass rules and modes on', () => {
    expect(flags({ allowedTools: ['mcp__cci__*', 'Read'], permissionMode: 'acceptEdits' })).toEqual(
      ['--allowedTools=mcp__cci__*,Read', '--permission-mode=acceptEdits'],
    );
    expect(
      flags({ permissionMode: 'bypassPermissions', allowDangerouslySkipPermissions: true }),
    ).toEqual(['--permission-mode=bypassPermissions', '--allow-dangerously-skip-permissions']);
  });

  test('of each other option', () => {
    const rows: readonly [SessionOptions, readonly string[]][] = [
      [
        { thinking: { type: 'adaptive', display: 'updates' } },
        ['--thinking=adaptive', '--thinking-display=updates'],
      ],
      [{ thinking: { type: 'disabled' } }, ['--thinking=disabled']],
      [{ maxThinkingTokens: 5 }, ['--max-thinking-tokens=5']],
      [
        { maxBudgetUsd: 0.5, taskBudget: { total: 9 } },
        ['--max-budget-usd=0.5', '--task-budget=9'],
      ],
      [{ agent: 'a', betas: ['x', 'y'] }, ['--agent=a', '--betas=x,y']],
      [
        { outputFormat: { type: 'json_schema', schema: { type: 'object' } } },
        ['--json-schema={"type":"object"}'],
      ],
      [{ debug: true }, ['--debug']],
      [{ debugFile: 'f' }, ['--debug-file=f']],
      [{ canUseTool: () => ({ behavior: 'allow' }) }, ['--permission-prompt-tool=stdio']],
      [{ ask: async ({ id }) => ({ id, action: 'accept' }) }, ['--permission-prompt-tool=stdio']],
      [{ permissionPromptToolName: 'mcp__x__y' }, ['--permission-prompt-tool=mcp__x__y']],
      [{ permissionPrompts: 'none' }, ['--permission-prompts=none']],
      [{ continue: true }, ['--continue']],
      [
        { resume: 'id', forkSession: true, resumeSessionAt: 'u' },
        ['--resume=id', '--fork-session', '--resume-session-at=u'],
      ],
      [{ sessionId: 's', resumeDropsTurn: 'u' }, ['--resume-drops-turn=u', '--session-id=s']],
      [{ tools: { type: 'preset', preset: 'claude_code' } }, ['--tools=default']],
      [{ tools: ['Bash', 'Read'] }, ['--tools=Bash,Read']],
      [{ skills: 'all' }, ['--allowedTools=Skill']],
      [{ skills: ['pdf'], allowedTools: ['Read'] }, ['--allowedTools=Read,Skill(pdf)']],
      [{ settingSources: [] }, ['--setting-sources=']],
      [
        { includePartialMessages: true, includeHookEvents: true },
        ['--include-partial-messages', '--include-hook-events'],
      ],
      [
        { projectConfigRoot: '/r', plugins: [{ type: 'local', path: '/p' }] },
        ['--project-config-root=/r', '--plugin-dir=/p'],
      ],
      [{ settings: '/file.json' }, ['--settings', '/file.json']],
      [
        { settings: '{"a":1}', sandbox: { on: true } },
        ['--settings', '{"a":1,"sandbox":{"on":true}}'],
      ],
      [{ managedSettings: { m: 1 } }, ['--managed-settings', '{"m":1}']],
    ];
    for (const [options, expected] of rows) expect(flags(options)).toEqual(expected);
  });

  verifies(
    ['S42', 'S46', 'S48'],
    'hand servers of the CLI on, and keep those in this process out',
    () => {
      const mcpServers = {
        files: { command: 'node', args: ['files.js'] },
        web: { type: 'sse' as const, url: 'http://127.0.0.1:1/sse' },
        api: { type: 'http' as const, url: 'http://127.0.0.1:1/mcp' },
        mine: createRegistry({ name: 'mine', version: '1' }),
        ours: {
          type: 'sdk' as const,
          name: 'ours',
          instance: createRegistry({ name: 'ours', version: '1' }),
        },
      };
      const [flag, value] = flags({ mcpServers });
      expect(flag).toBe('--mcp-config');
      const { files, web, api } = mcpServers;
      expect(JSON.parse(value ?? '')).toEqual({ mcpServers: { files, web, api } });
      expect(parseMcpServers({ mcpServers }).sdk.map(({ name }) => name)).toEqual(['mine', 'ours']);
    },
  );
});

describe('initialize', () => {
  verifies(['S40', 'S41', 'S45'], 'names servers, hooks and agents, and holds no code', () => {
    const fields = initializeFields(
      {
        agents: { helper: { description: 'd', prompt: 'p' } },
        title: 't',
        forwardSubagentText: true,
      },
      {
        hooks: { Stop: [{ hookCallbackIds: ['hook_0'] }] },
        sdkServers: [{ name: 'a' }, { name: 'b', timeout: 1000 }],
        manifests: {},
      },
    );
    expect(fields).toEqual({
      hooks: { Stop: [{ hookCallbackIds: ['hook_0'] }] },
      sdkMcpServers: ['a', 'b'],
      sdkMcpServerConfigs: { b: { timeout: 1000 } },
      systemPrompt: [''],
      agents: { helper: { description: 'd', prompt: 'p' } },
      title: 't',
      forwardSubagentText: true,
    });
  });

  verifies('S44', 'sends the system prompt from a string, strings, or the preset', () => {
    const fields = (options: object): unknown => initializeFields(validateOptions(options), none);
    expect(fields({})).toEqual({ systemPrompt: [''] });
    expect(fields({ systemPrompt: 'x' })).toEqual({ systemPrompt: ['x'] });
    expect(fields({ systemPrompt: ['x', 'y'] })).toEqual({ systemPrompt: ['x', 'y'] });
    expect(fields({ systemPrompt: { type: 'preset', preset: 'claude_code' } })).toEqual({});
    const append = { type: 'preset', preset: 'claude_code', append: 'Be short.' };
    expect(fields({ systemPrompt: append })).toEqual({ appendSystemPrompt: 'Be short.' });
    expect(fields({ system_prompt: 'older name' })).toEqual({ systemPrompt: ['older name'] });
  });

  test('accepts servers under their older name', () => {
    const options = validateOptions({ mcp_servers: { x: { command: 'c' } } } as SessionOptions);
    expect(parseMcpServers(options).process).toEqual({ x: { command: 'c' } });
  });
});

describe('environment', () => {
  verifies('S88', 'requests session states and raises the tool timeout of older CLIs', () => {
    expect(environmentOf({ env: { PATH: '/bin' }, enableFileCheckpointing: true })).toEqual({
      PATH: '/bin',
      CLAUDE_CODE_ENTRYPOINT: 'sdk-ts',
      CLAUDE_CODE_STREAM_CLOSE_TIMEOUT: '86400000',
      CLAUDE_CODE_SDK_READS_SESSION_STATE: '1',
      CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING: 'true',
    });
    expect(environmentOf({ env: {}, streamCloseTimeoutMs: 5 })).toMatchObject({
      CLAUDE_CODE_STREAM_CLOSE_TIMEOUT: '5',
    });
    const said = { CLAUDE_CODE_STREAM_CLOSE_TIMEOUT: '1', CLAUDE_CODE_ENTRYPOINT: 'mine' };
    expect(environmentOf({ env: said })).toMatchObject(said);
  });

  test('is inherited by default, replaced by env, and merged or filtered by inheritEnv', () => {
    process.env['DUOLANE_TEST_A'] = 'a';
    process.env['NODE_OPTIONS'] ??= '';
    process.env['DEBUG'] = 'x';
    onTestFinished(() => {
      delete process.env['DUOLANE_TEST_A'];
      delete process.env['DEBUG'];
    });
    const all = environmentOf({});
    expect(all).toMatchObject({ DUOLANE_TEST_A: 'a' });
    expect(all).not.toHaveProperty('NODE_OPTIONS');
    expect(all).not.toHaveProperty('DEBUG');
    expect(environmentOf({ env: { B: 'b' } })).not.toHaveProperty('DUOLANE_TEST_A');
    expect(environmentOf({ env: { B: 'b' }, inheritEnv: true })).toMatchObject({
      DUOLANE_TEST_A: 'a',
      B: 'b',
    });
    const listed = environmentOf({ env: { B: 'b' }, inheritEnv: ['DUOLANE_TEST_A'] });
    expect(listed).toMatchObject({ DUOLANE_TEST_A: 'a', B: 'b' });
    expect(listed).not.toHaveProperty('PATH');
    expect(environmentOf({ inheritEnv: false })).not.toHaveProperty('PATH');
  });
});

describe('executable', () => {
  const env = {};
  test('is a program, a script of this Node, or a script of another runtime', () => {
    const launch = (options: SessionOptions): unknown => {
      const { command, args } = launchOf({ env, ...options }, ['--x']);
      return [command, ...args];
    };
    expect(launch({ pathToClaudeCodeExecutable: '/bin/claude' })).toEqual(['/bin/claude', '--x']);
    expect(launch({ pathToClaudeCodeExecutable: '/c.mjs' })).toEqual(['/c.mjs', '--x']);
    expect(launch({ pathToClaudeCodeExecutable: '/c.ts', executable: 'bun' })).toEqual([
      'bun',
      '/c.ts',
      '--x',
    ]);
    expect(launch({ pathToClaudeCodeExecutable: '/c.js', executableArgs: ['--flag'] })).toEqual([
      process.execPath,
      '--flag',
      '/c.js',
      '--x',
    ]);
    expect(launchOf({ env }, []).command).toMatch(/agent-cli[\\/]main\.js$/);
  });

  test('officialCli finds the platform package, then the older one, and says what to install', () => {
    const root = mkdtempSync(join(tmpdir(), 'duolane-cli-'));
    onTestFinished(() => rmSync(root, { recursive: true }));
    const path = process.env['PATH'];
    process.env['PATH'] = '';
    onTestFinished(() => void (process.env['PATH'] = path));
    const put = (name: string, file: string): string => {
      const folder = join(root, 'node_modules', '@anthropic-ai', name);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, 'package.json'), '{}');
      writeFileSync(join(folder, file), '');
      return join(folder, file);
    };
    expect(() => officialCli({ from: root })).toThrow(
      /npm install @anthropic-ai\/claude-agent-sdk/,
    );
    const older = put('claude-code', 'cli.js');
    expect(officialCli({ from: root })).toBe(older);
    const native = put(`claude-agent-sdk-${process.platform}-${process.arch}`, 'claude');
    expect(officialCli({ from: root })).toBe(native);
  });
});

test('outputFormat accepts JSON Schema that zod generated', () => {
  const schema = z.toJSONSchema(z.object({ n: z.number() }));
  const outputFormat = { type: 'json_schema', schema } as const;
  expect(validateOptions({ outputFormat }).outputFormat).toBe(outputFormat);
});
