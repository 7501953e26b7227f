import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { DuolaneError } from '../../errors.ts';
import { parseFlags, splitList } from './flags.ts';

const SDK = '--output-format stream-json --verbose --input-format stream-json'.split(' ');

test('the flags of the TypeScript SDK are parsed', () => {
  const flags = parseFlags([
    ...SDK,
    '--max-turns=3',
    '--model=script:x',
    '--permission-prompt-tool=stdio',
    '--allowedTools=mcp__calc__add,Bash(git log, git diff)',
    '--tools=',
    '--mcp-config',
    '{"mcpServers":{}}',
    '--setting-sources=',
    '--strict-mcp-config',
    '--permission-mode=acceptEdits',
    '--include-partial-messages',
    '--session-mirror',
    '--add-dir=/a',
    '--add-dir=/b',
    '--settings',
    '{}',
    '--replay-user-messages',
  ]);
  expect(flags).toMatchObject({
    inputFormat: 'stream-json',
    outputFormat: 'stream-json',
    maxTurns: 3,
    model: 'script:x',
    permissionPromptTool: 'stdio',
    allowedTools: ['mcp__calc__add', 'Bash(git log, git diff)'],
    tools: [],
    mcpConfig: ['{"mcpServers":{}}'],
    permissionMode: 'acceptEdits',
    partialMessages: true,
    mirror: true,
    addDirs: ['/a', '/b'],
    replayUserMessages: true,
    notes: [],
  });
});

test('the flags of the Python SDK are parsed: separate values, kebab or camel case', () => {
  const python = [
    '--system-prompt',
    '',
    '--allowed-tools',
    'Read,Write',
    '--max-turns',
    '2',
    '--disallowedTools',
    'Bash',
    '--resume',
    'abc',
    '--tools',
    '',
  ];
  expect(parseFlags([...SDK, ...python])).toMatchObject({
    systemPrompt: '',
    allowedTools: ['Read', 'Write'],
    maxTurns: 2,
    disallowedTools: ['Bash'],
    resume: 'abc',
    tools: [],
  });
});

test('both spellings of a flag mean the same, whatever its value', () => {
  const names = [
    'model',
    'effort',
    'system-prompt',
    'append-system-prompt',
    'json-schema',
    'settings',
  ] as const;
  fc.assert(
    fc.property(fc.constantFrom(...names), fc.string(), (name, value) => {
      const parse = (argv: string[]): unknown => {
        try {
          return parseFlags(argv);
        } catch (error) {
          return (error as DuolaneError).message;
        }
      };
      expect(parse([`--${name}=${value}`])).toEqual(parse([`--${name}`, value]));
    }),
  );
});

test('ignored and unknown flags become notices and consume no other argument', () => {
  const flags = parseFlags([
    '--betas=x',
    '--await-initialize',
    '--brand-new=1',
    '--other',
    'word',
    '-p',
    'the question',
    '--verbose',
  ]);
  expect(flags.notes).toHaveLength(4);
  expect(flags).toMatchObject({ print: true, prompt: 'the question', verbose: true });
});

test('the permission mode "auto" becomes "default", with a notice', () => {
  const { permissionMode, notes } = parseFlags(['--permission-mode=auto']);
  expect(permissionMode).toBe('default');
  expect(notes).toEqual([expect.stringContaining('auto is not supported')]);
});

test('arguments after -- are the prompt', () => {
  expect(parseFlags(['-p', '--', '--model', 'is what?']).prompt).toBe('--model is what?');
});

test.each([
  [['--max-turns=0'], 'at least 1'],
  [['--max-turns=1.5'], 'a whole number'],
  [['--max-budget-usd=free'], 'a number'],
  [['--model'], 'missing value of --model'],
  [['--input-format=stream-json'], 'invalid --output-format "text": expected "stream-json"'],
  [['--permission-mode=bypassPermissions'], '--allow-dangerously-skip-permissions'],
  [['--permission-prompt-tool=mcp__x'], 'expected "stdio"'],
  [['--session-id=1'], 'expected a UUID'],
  [['--json-schema=[]'], 'expected a JSON object'],
])('%j is refused with an error that names the flag', (argv, text) => {
  expect(() => parseFlags(argv)).toThrow(text);
});

test('thinking can be switched off or given a budget', () => {
  expect(parseFlags(['--thinking=disabled']).maxThinkingTokens).toBe(0);
  expect(parseFlags(['--thinking=adaptive']).maxThinkingTokens).toBeUndefined();
  expect(parseFlags(['--max-thinking-tokens=2048']).maxThinkingTokens).toBe(2048);
});

test('lists are split at commas and spaces, but not inside parentheses', () => {
  expect(splitList('a,b  c , Bash(git log, x y),')).toEqual(['a', 'b', 'c', 'Bash(git log, x y)']);
  expect(splitList('Bash(a (b) c), d(e, f')).toEqual(['Bash(a (b) c)', 'd(e, f']);
  expect(splitList('(((')).toEqual(['(((']);
});
