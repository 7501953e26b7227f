import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  a2aEncoder,
  TaskFold,
  type A2AArtifact,
  type A2AStreamEvent,
  type TextOptions,
} from '../../src/a2a/index.ts';
import { mergeChunks } from '../../src/a2a/push/merge-chunks.ts';
import type { TaskEvent } from '../../src/event/types.ts';
import { lawfulLog } from '../support/arbitraries.ts';
import { encoderContract } from '../contracts/encoder.contract.ts';
import { verifies } from '../verifies.ts';

encoderContract('A2A', () => a2aEncoder().encode);
encoderContract('A2A with joined chunks', () => mergeChunks(a2aEncoder().encode, 40));
encoderContract('A2A, throttled', () => a2aEncoder({ pattern: 'artifact', chars: 4 }).encode);
encoderContract('A2A, text as status', () => a2aEncoder({ pattern: 'status', chars: 4 }).encode);

const artifactsOf = (artifacts: readonly A2AArtifact[] = []): unknown =>
  artifacts
    .map(({ artifactId, parts }) => ({ artifactId, parts: joinTexts(parts) }))
    .filter(({ parts }) => JSON.stringify(parts) !== '[""]')
    .toSorted((a, b) => (a.artifactId < b.artifactId ? -1 : 1));

/** No law says how text is split into parts, so only the joined text is compared. */
const joinTexts = (parts: A2AArtifact['parts']): unknown[] =>
  parts.reduce<unknown[]>((out, part) => {
    const last = out.at(-1);
    if (part.text === undefined) return [...out, part];
    return typeof last === 'string' ? [...out.slice(0, -1), last + part.text] : [...out, part.text];
  }, []);

type Encode = ReturnType<typeof a2aEncoder>['encode'];
const asItIs = (encode: Encode): Encode => encode;

describe.each<[string, (encode: Encode) => Encode, TextOptions]>([
  ['as they come', asItIs, {}],
  ['joined', (encode) => mergeChunks(encode, 10), {}],
  ['throttled', asItIs, { pattern: 'artifact', chars: 4, artifact: 'result' }],
  ['with text as status', asItIs, { pattern: 'status', chars: 4 }],
])('events %s', (_name, wrap, options) => {
  verifies(
    ['S126', 'S173', 'S139'],
    `a client that folds the events gets the same task as the server`,
    () => {
      fc.assert(
        fc.property(lawfulLog, (entries) => {
          const encoder = a2aEncoder(options);
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

test('with the status pattern the last text is complete, also after a question', () => {
  const { encode } = a2aEncoder({ pattern: 'status' });
  const fold = new TaskFold();
  const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [{ text: 'hi' }] };
  const request = { id: 'ok', kind: 'approval' } as const;
  const answers = [{ id: 'ok', action: 'accept' }] as const;
  const events: readonly TaskEvent[] = [
    { type: 'turn.submitted', turn },
    { type: 'run.started', turn: 'm' },
    { type: 'text.delta', id: 'x', delta: 'one ' },
    { type: 'input.required', request },
    { type: 'text.end', id: 'x', text: 'one ' },
    { type: 'run.finished', outcome: 'input-required', text: 'one ', pending: [request] },
    { type: 'turn.submitted', turn: { ...turn, messageId: 'n', parts: [], answers } },
    { type: 'run.started', turn: 'm' },
    { type: 'text.delta', id: 'y', delta: 'two' },
    { type: 'text.end', id: 'y', text: 'two' },
    { type: 'run.finished', outcome: 'completed', text: 'one two' },
  ];
  for (const [i, event] of events.entries())
    for (const out of encode({ ...event, seq: i + 1, at: i })) fold.apply(out);
  expect(JSON.stringify(fold.task?.artifacts)).toContain('"one two"');
});

test('text of sub-agents, reasoning and frames are not encoded', () => {
  const { encode } = a2aEncoder();
  const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [{ text: 'hi' }] };
  const outs: A2AStreamEvent[] = [
    { type: 'turn.submitted', turn } as const,
    { type: 'run.started', turn: 'm' } as const,
    { type: 'text.delta', id: 'x', delta: 'inner', path: ['sub'] } as const,
    { type: 'reasoning.delta', id: 'r', delta: 'hm' } as const,
    { type: 'text.delta', id: 'y', delta: 'outer' } as const,
  ].flatMap((event, i) => [...encode({ ...event, seq: i + 1, at: i })]);
  expect(outs).toHaveLength(3);
  expect(JSON.stringify(outs)).not.toMatch(/inner|hm/);
});
