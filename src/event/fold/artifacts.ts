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

/** What an appended artifact adds, and to what. Deleted once the joined list is made. */
interface Tail {
  readonly before: Artifact;
  readonly parts: readonly Part[];
}
const tails = new WeakMap<Artifact, Tail>();

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
      made ??= joined(artifact);
      tails.delete(artifact);
      return made;
    },
  };
  tails.set(artifact, { before, parts: more.parts });
  return artifact;
}

function joined(artifact: Artifact): readonly Part[] {
  const pieces: (readonly Part[])[] = [];
  let first = artifact;
  for (let tail = tails.get(first); tail; tail = tails.get(first)) {
    pieces.push(tail.parts);
    first = tail.before;
  }
  pieces.push(first.parts);
  return pieces.toReversed().flat();
}
