import { DuolaneError } from '../errors.ts';
import type { Artifact, Snapshot, Turn } from '../event/types.ts';

type Named = Pick<Artifact, 'artifactId' | 'name'>;

/**
 * How far a task has come in a declared order of artifacts. A run that completes has said the whole
 * plan; one that failed, or that slept, may have left it half-way. The next run then goes on behind
 * what is there, or says the plan from its beginning; it cannot leave out, swap or add.
 */
export class ArtifactPlan {
  readonly #names: readonly string[];
  #count = 0;
  #open: string | undefined;
  /** This run has said something, so it can begin the plan no more. */
  #begun = false;

  constructor(names: readonly string[]) {
    this.#names = names;
  }

  /** From where an agent goes on that is called for this turn. */
  static of(
    names: readonly string[],
    { messageId }: Turn,
    { artifacts, delivered }: Snapshot,
  ): ArtifactPlan {
    const progress = new ArtifactPlan(names);
    const known = new Map(artifacts.map((each) => [each.artifactId, each]));
    const last = (delivered?.artifacts ?? []).flatMap((id) => known.get(id) ?? []);
    // What was said again stands where it was said first; only the last run has its own order.
    for (const { artifactId } of last) known.delete(artifactId);
    for (const artifact of known.values()) {
      progress.#take(artifact);
      // Where the runs before the last one ended is not known: any of these places may be one.
      progress.#endRun();
    }
    for (const artifact of last) progress.#take(artifact);
    if (delivered?.turn !== messageId) progress.#endRun();
    return progress;
  }

  /** Throws `invalid` for what is not the next one, and says which that is. */
  check(artifact: Named): void {
    const expected = this.#names[this.#count];
    if (this.#take(artifact)) return;
    throw new DuolaneError(
      'invalid',
      `artifact ${artifact.name ?? '(no name)'} is out of the plan: ${expected ?? 'no further one'} was expected`,
    );
  }

  /** Throws `invalid` while one is missing. */
  complete(): void {
    const missing = this.#names[this.#count];
    if (missing !== undefined)
      throw new DuolaneError('invalid', `the run ends without its artifact ${missing}`);
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
