import { expect, test } from 'vitest';
import { applyUpdate, type PolicyInput, evaluatePolicy, type Policy } from './permission-policy.ts';
import { globMatcher } from './glob-pattern.ts';
import { allows, forbids, parseRule } from './permission-rules.ts';

const rules = (...texts: string[]) => texts.map(parseRule);
const policy = (more: Partial<Policy> = {}): Policy => ({
  mode: 'default',
  allow: [],
  deny: [],
  ask: [],
  ...more,
});
const mcp: PolicyInput = { tool: 'mcp__calc__add', builtin: false, readOnly: false, edit: false };
const reading: PolicyInput = { ...mcp, readOnly: true };
const at = (path: string) => ({ cwd: '/project', given: path, real: path, home: '/house' });
const read: PolicyInput = {
  tool: 'Read',
  builtin: true,
  readOnly: true,
  edit: false,
  path: at('/project/src/a.ts'),
};
const edit: PolicyInput = {
  tool: 'Edit',
  builtin: true,
  readOnly: false,
  edit: true,
  path: at('/project/src/a.ts'),
};
const bash = (command: string): PolicyInput => ({
  tool: 'Bash',
  builtin: true,
  readOnly: false,
  edit: false,
  command,
});
const outside: PolicyInput = { ...read, outside: '/etc/passwd', path: at('/etc/passwd') };

test.each<[string, PolicyInput, Partial<Policy>, string]>([
  ['a tool of a server is asked about', mcp, {}, 'ask'],
  ['a tool of a server that is marked as read-only is asked about', reading, {}, 'ask'],
  ['reading inside the working directory needs no permission', read, {}, 'allow'],
  ['reading outside is asked about', outside, {}, 'ask'],
  ['editing is asked about', edit, {}, 'ask'],
  ['acceptEdits allows edits', edit, { mode: 'acceptEdits' }, 'allow'],
  ['acceptEdits does not allow commands', bash('ls'), { mode: 'acceptEdits' }, 'ask'],
  ['an allow rule allows a call', mcp, { allow: rules('mcp__calc__*') }, 'allow'],
  ['a rule may allow all tools of a server', mcp, { allow: rules('mcp__calc') }, 'allow'],
  ['a rule for a server does not cover another server', mcp, { allow: rules('mcp__cal') }, 'ask'],
  [
    'a deny rule wins over an allow rule',
    mcp,
    { allow: rules('mcp__calc__*'), deny: rules('mcp__calc__add') },
    'deny',
  ],
  [
    'a deny rule wins over bypassPermissions',
    mcp,
    { mode: 'bypassPermissions', deny: rules('mcp__calc__add') },
    'deny',
  ],
  [
    'an ask rule wins over an allow rule',
    mcp,
    { allow: rules('mcp__*'), ask: rules('mcp__calc__add') },
    'ask',
  ],
  [
    'bypassPermissions allows every other call',
    bash('rm -rf x'),
    { mode: 'bypassPermissions' },
    'allow',
  ],
  [
    'plan asks before a change, even with an allow rule',
    edit,
    { mode: 'plan', allow: rules('Edit') },
    'ask',
  ],
  ['plan allows reading', read, { mode: 'plan' }, 'allow'],
  ['dontAsk denies calls that another mode asks about', mcp, { mode: 'dontAsk' }, 'deny'],
  [
    'dontAsk allows calls with an allow rule',
    mcp,
    { mode: 'dontAsk', allow: rules('mcp__calc__add') },
    'allow',
  ],
  ['a rule may name commands', bash('git status'), { allow: rules('Bash(git *)') }, 'allow'],
  [
    'an allow rule does not cover a second command after it',
    bash('git status; rm -rf .'),
    { allow: rules('Bash(git *)') },
    'ask',
  ],
  [
    'a deny rule covers a command after another one',
    bash('ls && rm x'),
    { mode: 'bypassPermissions', deny: rules('Bash(rm *)') },
    'deny',
  ],
  [
    'an ask rule covers a command after another one',
    bash('ls && rm x'),
    { allow: rules('Bash'), ask: rules('Bash(rm *)') },
    'ask',
  ],
  ['a rule may name paths', edit, { allow: rules('Edit(src/**)') }, 'allow'],
  [
    'a rule with a path does not cover other paths',
    { ...edit, path: at('/project/lib/a.ts') },
    { allow: rules('Edit(src/**)') },
    'ask',
  ],
])('%s', (_, call, more, expected) => {
  expect(evaluatePolicy(call, policy(more)).behavior).toBe(expected);
});

test.each([
  ['Bash(git *)', 'git log', true],
  ['Bash(git:*)', 'git log', true],
  ['Bash(git *)', 'git', true],
  ['Bash(git *)', 'gitk', false],
  ['Bash(git *)', 'git log && git status', true],
  ['Bash(git *)', 'git log | sh', false],
  ['Bash(git *)', 'git log $(rm x)', false],
  ['Bash(git *)', 'git log `rm x`', false],
  ['Bash(git *)', 'git log > /etc/passwd', false],
  ['Bash(git *)', 'git log\nrm x', false],
  ['Bash(echo $(date))', 'echo $(date)', true],
  ['Bash', 'anything at all', true],
])('the allow rule %s covers the command %j: %s', (rule, command, expected) => {
  expect(allows(parseRule(rule), bash(command))).toBe(expected);
});

test('a deny rule covers a command when any part of it matches', () => {
  expect(forbids(parseRule('Bash(rm *)'), bash('ls && rm -rf x'))).toBe(true);
});

test.each([
  ['src/**/*.ts', 'src/a.ts', true],
  ['src/**/*.ts', 'src/a/b/c.ts', true],
  ['*.ts', 'src/a.ts', false],
  ['*.{ts,js}', 'a.js', true],
  ['a?.txt', 'ab.txt', true],
  ['a.txt', 'aXtxt', false],
  ['**', 'any/thing', true],
])('the pattern %s matches the path %s: %s', (glob, path, expected) => {
  expect(globMatcher(glob)(path)).toBe(expected);
});

test.each([
  ['src/**', '/project/src/a', undefined, true, true],
  ['**', '/project/a/b', undefined, true, true],
  // Outside: no allow rule, but a deny rule that starts with `**` holds.
  ['**', '/other/a', undefined, false, true],
  ['**/.env', '/other/.env', undefined, false, true],
  ['*', '/other', undefined, false, false],
  ['../other/**', '/other/a', undefined, false, true],
  ['/other/**', '/other/a', undefined, true, true],
  ['//other/**', '/other/a', undefined, true, true],
  ['~/.ssh/**', '/house/.ssh/id', undefined, true, true],
  // A link: the real path counts for an allow rule, both for a deny rule.
  ['src/**', '/project/src/a', '/other/a', false, true],
  ['src/**', '/project/alias/a', '/project/src/a', true, true],
  ['/project/src/**', '/project/alias/a', '/project/src/a', true, true],
  ['secret', '/project/secret/deep/a', undefined, false, true],
  ['secret', '/project/secrets', undefined, false, false],
  ['{a,b}'.repeat(20), '/project/x', undefined, false, true],
])(
  'the pattern %s allows and forbids the path %s (real path %s) as expected',
  (content, given, real, allowed, forbidden) => {
    const path = { cwd: '/project', given, real: real ?? given, home: '/house' };
    const rule = { tool: 'Read', content };
    expect(allows(rule, { tool: 'Read', path })).toBe(allowed);
    expect(forbids(rule, { tool: 'Read', path })).toBe(forbidden);
    expect(forbids(rule, { tool: 'Grep', alsoAs: 'Read', path })).toBe(forbidden);
    expect(allows(rule, { tool: 'Grep', alsoAs: 'Read', path })).toBe(false);
  },
);

test('updates add, replace and remove rules, and set the mode', () => {
  const [a, b] = rules('A', 'B(x)') as [ReturnType<typeof parseRule>, ReturnType<typeof parseRule>];
  const added = applyUpdate(policy(), { type: 'addRules', behavior: 'allow', rules: [a, b] });
  expect(added.allow).toEqual([a, b]);
  expect(applyUpdate(added, { type: 'addRules', behavior: 'allow', rules: [a] }).allow).toEqual([
    b,
    a,
  ]);
  expect(applyUpdate(added, { type: 'removeRules', behavior: 'allow', rules: [a] }).allow).toEqual([
    b,
  ]);
  expect(applyUpdate(added, { type: 'replaceRules', behavior: 'allow', rules: [a] }).allow).toEqual(
    [a],
  );
  expect(applyUpdate(added, { type: 'setMode', mode: 'plan' }).mode).toBe('plan');
});

test.each([
  ['Read(**/secrets)', '/project/a/secrets/key'],
  ['Read(**/secrets/)', '/project/a/secrets/deep/key'],
  ['Read(.env*)', '/project/.env.d/key'],
  ['Read(secrets/*)', '/project/secrets/deep/key'],
  ['Read(~)', '/house/.ssh/id'],
  ['Read(/srv/*/private)', '/srv/a/private/key'],
])('the deny rule %s covers %s, which is inside the folder', (rule, path) => {
  expect(forbids(parseRule(rule), { tool: 'Read', path: at(path) })).toBe(true);
});

test('an allow rule that matches a folder does not cover the files in it', () => {
  expect(
    allows(parseRule('Read(**/public)'), { tool: 'Read', path: at('/project/public/x') }),
  ).toBe(false);
});

test('a deny rule whose pattern cannot be decided covers the call', () => {
  expect(forbids(parseRule('mcp__calc__add(2)'), mcp)).toBe(true);
  expect(allows(parseRule('mcp__calc__add(2)'), mcp)).toBe(false);
});

test.each(['Bash(git *', 'Bash git)', '(x)', ')', '', ' '])('%j is refused as a rule', (text) => {
  expect(() => parseRule(text)).toThrow('expected Tool or Tool(pattern)');
});

test.each([
  ['Read(secrets/**)', '/project/SECRETS/key'],
  ['Read(.ENV)', '/project/.env'],
  ['Read(**/caf\u00e9)', '/project/cafe\u0301/key'],
  ['Read(~/.ssh)', '/HOUSE/.SSH/id'],
  ['Read(secret)', '/project/\u017fecret'],
])('the deny rule %s covers %s, which differs in case or Unicode form', (rule, path) => {
  expect(forbids(parseRule(rule), { tool: 'Read', path: at(path) })).toBe(true);
  expect(allows(parseRule(rule), { tool: 'Read', path: at(path) })).toBe(false);
});

test('a deny rule with ? covers a letter that has two Unicode forms', () => {
  expect(forbids(parseRule('Read(a?)'), { tool: 'Read', path: at('/project/a\u00e9') })).toBe(true);
});

test.each([
  ['mcp__my__server', 'mcp__my__server__delete', true],
  ['mcp__server_', 'mcp__server___delete', true],
  ['mcp__my', 'mcp__my__server__delete', true],
  ['mcp__my', 'mcp__mine__delete', false],
])('the deny rule %s covers the server tool %s: %s', (rule, tool, expected) => {
  expect(forbids(parseRule(rule), { ...mcp, tool })).toBe(expected);
});
