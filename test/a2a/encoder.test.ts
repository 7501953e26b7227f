import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { a2aEncoder, TaskFold, type A2AArtifact, type StreamEvent } from '../../src/a2a/index.ts';
import { joinChunks } from '../../src/a2a/join.ts';
import { lawfulLog } from '../arbitraries.ts';
import { encoderContract } from '../encoder.contract.ts';
import { verifies } from '../verifies.ts';

encoderContract('A2A', () => a2aEncoder().encode);
encoderContract('A2A with joined chunks', () => joinChunks(a2aEncoder().encode, 40));

const artifactsOf = (artifacts: readonly A2AArtifact[] = []): unknown =>
  artifacts
    .map(({ artifactId, parts }) => ({ artifactId, parts: joinTexts(parts) }))
    .filter(({ parts }) => JSON.stringify(parts) !== '[""]')
    .toSorted((a, b) => (a.artifactId < b.artifactId ? -1 : 1));

/** How parts are cut is nobody's promise; what is in them is. */
const joinTexts = (parts: A2AArtifact['parts']): unknown[] =>
  parts.reduce<unknown[]>((out, part) => {
    const last = out.at(-1);
    if (part.text === undefined) return [...out, part];
    return typeof last === 'string' ? [...out.slice(0, -1), last + part.text] : [...out, part.text];
  }, []);

describe.each([
  ['as they come', (encode: ReturnType<typeof a2aEncoder>['encode']) => encode],
  ['joined', (encode: ReturnType<typeof a2aEncoder>['encode']) => joinChunks(encode, 10)],
])('events %s', (_name, wrap) => {
  verifies(
    ['S126', 'S173', 'S139'],
    `a client that folds them has at the end what the server has`,
    () => {
      fc.assert(
        fc.property(lawfulLog, (entries) => {
          const encoder = a2aEncoder();
          const encode = wrap(encoder.encode);
          const fold = new TaskFold();
          for (const entry of entries) for (const event of encode(entry)) fold.apply(event);
          expect(fold.problems.filter(({ kind }) => kind !== 'append-to-nothing')).toEqual([]);
          const last = entries.at(-1)!;
          if (last.type !== 'run.finished') return;
          const task = encoder.task();
          expect(artifactsOf(fold.task?.artifacts)).toEqual(artifactsOf(task.artifacts));
          if (last.outcome !== 'input-required') expect(fold.task?.status).toEqual(task.status);
        }),
      );
    },
  );
});

test('text of sub-agents, reasoning and frames are not shown', () => {
  const { encode } = a2aEncoder();
  const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [{ text: 'hi' }] };
  const outs: StreamEvent[] = [
    { type: 'turn.submitted', turn } as const,
    { type: 'run.started', turn: 'm' } as const,
    { type: 'text.delta', id: 'x', delta: 'inner', path: ['sub'] } as const,
    { type: 'reasoning.delta', id: 'r', delta: 'hm' } as const,
    { type: 'text.delta', id: 'y', delta: 'outer' } as const,
  ].flatMap((event, i) => [...encode({ ...event, seq: i + 1, at: i })]);
  expect(outs).toHaveLength(3);
  expect(JSON.stringify(outs)).not.toMatch(/inner|hm/);
});
