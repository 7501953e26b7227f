import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { DuolaneError } from '../../errors.ts';
import { parseFlags, splitList } from './flags.ts';

const SDK = '--output-format stream-json --verbose --input-format stream-json'.split(' ');

test('what the TypeScript SDK passes', () => {
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

test('what the Python SDK passes: two words, kebab or camel case', () => {
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

test('flags that mean nothing here are noted, unknown ones too, and nothing else is eaten', () => {
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

test('a mode that only the vendor has is asked for in vain: noted, and people are asked', () => {
  const { permissionMode, notes } = parseFlags(['--permission-mode=auto']);
  expect(permissionMode).toBe('default');
  expect(notes).toEqual([expect.stringContaining('auto is not supported')]);
});

test('words behind -- are the question', () => {
  expect(parseFlags(['-p', '--', '--model', 'is what?']).prompt).toBe('--model is what?');
});

test.each([
  [['--max-turns=0'], 'at least 1'],
  [['--max-turns=1.5'], 'a whole number'],
  [['--max-budget-usd=free'], 'a number'],
  [['--model'], 'needs a value'],
  [['--input-format=stream-json'], 'needs --output-format=stream-json'],
  [['--permission-mode=bypassPermissions'], '--allow-dangerously-skip-permissions'],
  [['--permission-prompt-tool=mcp__x'], 'must be stdio'],
  [['--session-id=1'], 'must be a UUID'],
  [['--json-schema=[]'], 'must be a JSON object'],
])('%j is refused in words', (argv, text) => {
  expect(() => parseFlags(argv)).toThrow(text);
});

test('thinking can be switched off or given a budget', () => {
  expect(parseFlags(['--thinking=disabled']).maxThinkingTokens).toBe(0);
  expect(parseFlags(['--thinking=adaptive']).maxThinkingTokens).toBeUndefined();
  expect(parseFlags(['--max-thinking-tokens=2048']).maxThinkingTokens).toBe(2048);
});

test('lists are parted by commas and spaces, but not inside parentheses', () => {
  expect(splitList('a,b  c , Bash(git log, x y),')).toEqual(['a', 'b', 'c', 'Bash(git log, x y)']);
  expect(splitList('Bash(a (b) c), d(e, f')).toEqual(['Bash(a (b) c)', 'd(e, f']);
  expect(splitList('(((')).toEqual(['(((']);
});
