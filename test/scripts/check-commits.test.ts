import { expect, test } from 'vitest';
import { type Commit, problemsOf } from '../../scripts/check-commits.mjs';

const commit = (changes: Partial<Commit>): Commit => ({
  subject: 'task: start queued tasks in order',
  body: 'A later task could overtake an earlier one.',
  files: ['src/task/run/runner.ts'],
  ...changes,
});

test('accepts an area, an imperative and a body', () => {
  expect(problemsOf(commit({}))).toEqual([]);
  expect(problemsOf(commit({ subject: 'web, docs: rename a button' }))).toEqual([]);
  expect(problemsOf(commit({ subject: 'agent-cli: 2 tools less' }))).toEqual([]);
});

test.each([
  ['no area', 'start queued tasks in order'],
  ['an unknown area', 'tasks: start queued tasks in order'],
  ['a capital letter behind the area', 'task: Start queued tasks in order'],
  ['an area without a space behind it', 'task:start queued tasks in order'],
])('rejects a subject with %s', (_, subject) => {
  expect(problemsOf(commit({ subject }))).toEqual(['the subject is not "area: imperative"']);
});

test('rejects a subject of 73 characters and accepts one of 72', () => {
  const subject = (length: number): string => `task: ${'x'.repeat(length - 'task: '.length)}`;
  expect(problemsOf(commit({ subject: subject(72) }))).toEqual([]);
  expect(problemsOf(commit({ subject: subject(73) }))).toEqual(['the subject has 73 characters']);
});

test('rejects an empty body, except for a move', () => {
  expect(problemsOf(commit({ body: '' }))).toEqual(['the body that says why is missing']);
  expect(problemsOf(commit({ body: '', subject: 'task: move the fold' }))).toEqual([]);
});

test('rejects a change of the public surface without a changelog line', () => {
  const files = ['test/repo/doors.json', 'src/task/index.ts'];
  expect(problemsOf(commit({ files }))).toEqual([
    'the public surface changes, and CHANGELOG.md does not',
  ]);
  expect(problemsOf(commit({ files: [...files, 'CHANGELOG.md'] }))).toEqual([]);
});

test('names every problem of a commit', () => {
  const wrong = { subject: 'Fix', body: '', files: ['test/repo/doors.json'] };
  expect(problemsOf(wrong)).toHaveLength(3);
});
