import fc from 'fast-check';
import { expect, test } from 'vitest';
import { growth } from '../../../test/support/busy.ts';
import { turnOf } from '../../../test/support/arbitraries.ts';
import type { AgentEvent, Artifact, Snapshot } from '../types.ts';
import { advance } from './advance.ts';
import { artifactsAtLeast, artifactsChars } from './artifacts.ts';
import { slimSnapshot } from './slim-snapshot.ts';

type ArtifactEvent = Extract<AgentEvent, { readonly type: 'artifact' }>;

const next = (snapshot: Snapshot, event: AgentEvent): Snapshot =>
  advance(snapshot, { ...event, seq: snapshot.seq + 1, at: 1 });

function running(): Snapshot {
  const turn = turnOf('m');
  const snapshot = advance(undefined, { type: 'turn.submitted', turn, seq: 1, at: 1 });
  return next(snapshot, { type: 'run.started', turn: 'm', attempt: 1 });
}

const artifact = (id: string, text = 'x', append = false): ArtifactEvent => ({
  type: 'artifact',
  artifactId: id,
  parts: [{ text }],
  append,
});

/** The artifacts as the simplest code would keep them. */
function put(all: readonly Artifact[], { artifactId, parts, append }: ArtifactEvent): Artifact[] {
  const known = all.find((each) => each.artifactId === artifactId);
  const after = { artifactId, parts: append && known ? [...known.parts, ...parts] : parts };
  return known ? all.map((each) => (each === known ? after : each)) : [...all, after];
}

const delta: AgentEvent = { type: 'text.delta', id: 't', delta: 'x' };

test('a fold has the artifacts of its entries, however it branches and whenever it is read', () => {
  const step = fc.record({
    id: fc.nat({ max: 120 }).map((id) => `a${id}`),
    append: fc.boolean(),
    isRead: fc.boolean(),
    isText: fc.boolean(),
    /** The snapshot from which the fold goes on: usually the last one. */
    back: fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, fc.nat({ max: 50 })),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 300, size: 'max' }), (steps) => {
      const folds: { snapshot: Snapshot; expected: readonly Artifact[]; ids: string[] }[] = [
        { snapshot: running(), expected: [], ids: [] },
      ];
      for (const [index, { id, append, isRead, isText, back }] of steps.entries()) {
        const from = folds[Math.max(0, folds.length - 1 - back)] ?? folds[0];
        if (!from) throw new Error('no fold');
        const event = artifact(id, `${index}`, append);
        let snapshot = next(from.snapshot, event);
        if (isText) snapshot = next(snapshot, delta);
        const expected = put(from.expected, event);
        if (isRead) expect(snapshot.artifacts).toHaveLength(expected.length);
        folds.push({ snapshot, expected, ids: [...new Set([...from.ids, id])] });
      }
      for (const { snapshot, expected, ids } of folds) {
        expect(artifactsAtLeast(snapshot)).toBeLessThanOrEqual(expected.length);
        expect(snapshot.artifacts).toEqual(expected);
        expect(snapshot.artifacts).toBe(snapshot.artifacts);
        expect(snapshot.delivered?.artifacts ?? []).toEqual(ids);
      }
    }),
    { numRuns: 50 },
  );
});

const grown = (count: number): Snapshot => {
  let snapshot = running();
  for (let i = 0; i < count; i++) snapshot = next(snapshot, artifact(`a${i}`));
  return snapshot;
};

test('a snapshot with many artifacts is plain JSON, and its fold can continue', () => {
  const snapshot = grown(200);
  for (const copy of [
    { ...snapshot },
    structuredClone(snapshot),
    JSON.parse(JSON.stringify(snapshot)) as Snapshot,
  ]) {
    expect(copy).toEqual(snapshot);
    const after = next(copy, artifact('a7', 'y', true));
    expect(after.artifacts[7]?.parts).toEqual([{ text: 'x' }, { text: 'y' }]);
    expect(after.artifacts).toHaveLength(200);
    expect(after.delivered?.artifacts).toHaveLength(200);
  }
  expect(slimSnapshot(grown(200), 10).artifacts).toHaveLength(200);
  expect(Object.keys(snapshot)).toEqual(Object.keys(next(running(), artifact('a'))));
});

test('characters are counted without replaced artifacts, at most twice', () => {
  expect(artifactsChars(grown(1000))).toBe(1000);
  expect(artifactsChars(JSON.parse(JSON.stringify(grown(1000))) as Snapshot)).toBe(1000);
  let snapshot = grown(100);
  for (let i = 0; i < 10_000; i++) snapshot = next(snapshot, artifact(`a${i % 100}`));
  expect(artifactsChars(snapshot)).toBeLessThan(300);
});

test('artifacts take time linear in their number', async () => {
  expect(await growth(5000, (count) => void grown(count))).toBeLessThan(10);
});

test('replaced artifacts and text between them take time linear in their number', async () => {
  const run = (count: number): void => {
    let snapshot = grown(count);
    for (let i = 0; i < count; i++) snapshot = next(next(snapshot, artifact(`a${i}`)), delta);
    expect(snapshot.artifacts).toHaveLength(count);
  };
  expect(await growth(5000, run)).toBeLessThan(10);
});
