import { expect, test } from 'vitest';
import type { A2AArtifact } from '../protocol/model.ts';
import { TaskFold } from './task-fold.ts';

const LONG = 'x'.repeat(1 << 20);

const put = (fold: TaskFold, artifact: A2AArtifact, more: { readonly append?: true } = {}): void =>
  fold.apply({ artifactUpdate: { taskId: 't', contextId: 'c', artifact, ...more } });

test.each([
  ['ids of artifacts', (n: number) => ({ artifactId: `${n}${LONG}`, parts: [{ text: '' }] })],
  ['metadata', (n: number) => ({ artifactId: `${n}`, metadata: { LONG }, parts: [] })],
  ['text', () => ({ artifactId: 'a', parts: [{ text: LONG }] })],
  ['data', () => ({ artifactId: 'a', parts: [{ data: [LONG] }] })],
  ['small parts', () => ({ artifactId: 'a', parts: Array.from({ length: 999 }, small) })],
] satisfies readonly (readonly [string, (n: number) => A2AArtifact])[])(
  'a server cannot fill the memory of a client with %s',
  (_, artifact) => {
    const fold = new TaskFold();
    expect(() => {
      for (let n = 0; n < 1000; n += 1) put(fold, artifact(n), { append: true });
    }).toThrow(expect.objectContaining({ code: 'too_large', retryable: false }));
  },
);

const small = (): { readonly data: number } => ({ data: 1 });

test('an artifact that is replaced counts once, and so does a complete task', () => {
  const fold = new TaskFold();
  const artifact = { artifactId: 'a', metadata: { LONG }, parts: [{ text: LONG }] };
  const status = { state: 'TASK_STATE_WORKING', timestamp: '' } as const;
  for (let n = 0; n < 100; n += 1) {
    fold.apply({ task: { id: 't', contextId: 'c', status, artifacts: [artifact] } }, true);
    put(fold, artifact);
  }
  expect(fold.text).toHaveLength(LONG.length);
});

test('a problem does not repeat the long ids of a server', () => {
  const fold = new TaskFold();
  put(fold, { artifactId: 'a', parts: [] });
  const artifact = { artifactId: 'a', parts: [] };
  fold.apply({ artifactUpdate: { taskId: LONG, contextId: 'c', artifact } });
  expect(fold.problems.map(({ kind }) => kind)).toContain('other-task');
  for (const { message } of fold.problems) expect(message.length).toBeLessThan(1000);
});
