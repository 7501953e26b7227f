import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { SessionOptions } from '../host/index.ts';
import { isAllowedByOptions } from './allowed-by-options.ts';

const NAME = 'mcp__shop__buy';
const MISSING = join(tmpdir(), 'duolane-no-policy');
const only: SessionOptions = { settingSources: [], allowedTools: [NAME] };

test.each([[NAME], ['mcp__shop'], ['mcp__shop__*']])('allowedTools %s allows the call', (rule) => {
  expect(isAllowedByOptions(NAME, { ...only, allowedTools: [rule] }, MISSING)).toBe(true);
});

test.each<[string, SessionOptions]>([
  ['no rule', { ...only, allowedTools: [] }],
  ['a rule for another tool', { ...only, allowedTools: ['mcp__shop__sell', 'mcp__sho'] }],
  ['a rule with arguments', { ...only, allowedTools: [`${NAME}(a)`] }],
  ['settings of files', { allowedTools: [NAME] }],
  ['settings of the project', { ...only, settingSources: ['project'] }],
  ['settings', { ...only, settings: {} }],
  ['managed settings', { ...only, managedSettings: {} }],
  ['hooks', { ...only, hooks: {} }],
  ['plugins', { ...only, plugins: [] }],
  ['arguments of the command line', { ...only, extraArgs: { settings: '{}' } }],
  ['disallowedTools', { ...only, disallowedTools: ['mcp__shop'] }],
  ['another permission mode', { ...only, permissionMode: 'plan' }],
])('%s: the CLI decides', (_what, options) => {
  expect(isAllowedByOptions(NAME, options, MISSING)).toBe(false);
});

test('a policy of the machine: the CLI decides', () => {
  expect(isAllowedByOptions(NAME, only, tmpdir())).toBe(false);
});
