import type { AgentEvent, Artifact, Part } from '../types.ts';

type ArtifactEvent = Extract<AgentEvent, { readonly type: 'artifact' }>;

/**
 * The artifacts after one more event: replaced, or longer by its parts with `append`. Appending
 * costs the same however long the artifact is: the joined list is made when somebody reads it.
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

/** What an appended artifact adds, and to what; gone once its list was read and so made. */
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
  let whole = artifact;
  for (let tail = tails.get(whole); tail; tail = tails.get(whole)) {
    pieces.push(tail.parts);
    whole = tail.before;
  }
  pieces.push(whole.parts);
  return pieces.toReversed().flat();
}
