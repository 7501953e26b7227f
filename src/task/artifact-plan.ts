import { DuolaneError } from '../errors.ts';
import type { Artifact, Snapshot, Turn } from '../event/types.ts';

type Named = Pick<Artifact, 'artifactId' | 'name'>;

/**
 * The progress of a task in a declared order of artifacts. A completed run has delivered the full
 * plan; a failed or suspended one may have stopped in the middle. The next run then goes on after
 * the existing artifacts, or starts the plan from its beginning. It cannot omit, swap or add
 * artifacts.
 */
export class ArtifactPlan {
  readonly #names: readonly string[];
  #count = 0;
  #open: string | undefined;
  /** This run has delivered an artifact, so it can no longer start the plan from its beginning. */
  #begun = false;

  constructor(names: readonly string[]) {
    this.#names = names;
  }

  /** Returns the progress at which an agent continues that is called for this turn. */
  static of(
    names: readonly string[],
    { messageId }: Turn,
    { artifacts, delivered }: Snapshot,
  ): ArtifactPlan {
    const progress = new ArtifactPlan(names);
    const known = new Map(artifacts.map((each) => [each.artifactId, each]));
    const last = (delivered?.artifacts ?? []).flatMap((id) => known.get(id) ?? []);
    // A repeated artifact is at its first position in the snapshot. Only the last run has its
    // order.
    for (const { artifactId } of last) known.delete(artifactId);
    for (const artifact of known.values()) {
      progress.#take(artifact);
      // It is unknown where the runs before the last one ended: it may be after any artifact.
      progress.#endRun();
    }
    for (const artifact of last) progress.#take(artifact);
    if (delivered?.turn !== messageId) progress.#endRun();
    return progress;
  }

  /** Throws `invalid` for an artifact that is not the next one, and names the expected one. */
  check(artifact: Named): void {
    const expected = this.#names[this.#count];
    if (this.#take(artifact)) return;
    throw new DuolaneError(
      'invalid',
      `artifact "${artifact.name ?? ''}" is not the next one of the plan: expected ${expected === undefined ? 'no further artifact' : `"${expected}"`}`,
    );
  }

  /** Throws `invalid` if an artifact is missing. */
  complete(): void {
    const missing = this.#names[this.#count];
    if (missing !== undefined)
      throw new DuolaneError(
        'invalid',
        `the run ended without an artifact of its plan: expected "${missing}"`,
      );
  }

  #take({ artifactId, name }: Named): boolean {
    const isOpen = artifactId === this.#open;
    if (!isOpen) {
      if (name !== undefined && name === this.#names[this.#count]) this.#count++;
      else if (name !== undefined && name === this.#names[0] && !this.#begun) this.#count = 1;
      else return false;
    }
    this.#open = artifactId;
    this.#begun = true;
    return true;
  }

  #endRun(): void {
    this.#begun = false;
    if (this.#count < this.#names.length) return;
    this.#count = 0;
    this.#open = undefined;
  }
}
