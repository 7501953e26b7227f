import type { AgentEvent, Artifact, Part } from '../types.ts';

type ArtifactEvent = Extract<AgentEvent, { readonly type: 'artifact' }>;

/**
 * Returns the artifacts after one more event, which replaces its artifact or, with `append`, adds
 * its parts. Appending costs the same however long the artifact is: the joined list of parts is
 * made when it is read first.
 */
export function putArtifact(
  artifacts: readonly Artifact[],
  event: ArtifactEvent,
): readonly Artifact[] {
  const { artifactId, name, parts, metadata } = event;
  const index = artifacts.findIndex((known) => known.artifactId === artifactId);
  const known = artifacts[index];
  const fields: Artifact = {
    artifactId,
    ...(name !== undefined && { name }),
    ...(metadata !== undefined && { metadata }),
    parts,
  };
  if (!known) return [...artifacts, fields];
  return artifacts.with(index, event.append ? appended(known, fields) : fields);
}

/**
 * The parts of an appended artifact, from the last on. It has nothing else of the artifacts before,
 * so that their metadata, which is replaced, is not kept. Deleted once the joined list is made.
 */
interface Tail {
  readonly before: Tail | undefined;
  readonly parts: readonly Part[];
}
const tails = new WeakMap<Artifact, Tail>();

const tailOf = (artifact: Artifact): Tail =>
  tails.get(artifact) ?? { before: undefined, parts: artifact.parts };

function appended(before: Artifact, more: Artifact): Artifact {
  const { artifactId } = before;
  const name = more.name ?? before.name;
  const metadata = more.metadata ?? before.metadata;
  let made: readonly Part[] | undefined;
  const artifact: Artifact = {
    artifactId,
    ...(name !== undefined && { name }),
    ...(metadata !== undefined && { metadata }),
    get parts(): readonly Part[] {
      made ??= joined(tails.get(artifact));
      tails.delete(artifact);
      return made;
    },
  };
  tails.set(artifact, { before: tailOf(before), parts: more.parts });
  return artifact;
}

function joined(last: Tail | undefined): readonly Part[] {
  const pieces: (readonly Part[])[] = [];
  for (let tail = last; tail; tail = tail.before) pieces.push(tail.parts);
  return pieces.toReversed().flat();
}
