import { jsonChars } from '../../json.ts';
import type { AgentEvent, Artifact, Part, Snapshot } from '../types.ts';
import { GrowingList, type ListRules } from './growing-list.ts';
import { partsChars } from './turns.ts';

type ArtifactEvent = Extract<AgentEvent, { readonly type: 'artifact' }>;
export type ArtifactList = GrowingList<Artifact, ArtifactEvent>;

const ARTIFACTS: ListRules<Artifact, ArtifactEvent> = {
  keyOf: ({ artifactId }) => artifactId,
  keyOfItem: ({ artifactId }) => artifactId,
  put: (known, { artifactId, name, parts, metadata, append }) => {
    const fields: Artifact = {
      artifactId,
      ...(name !== undefined && { name }),
      ...(metadata !== undefined && { metadata }),
      parts,
    };
    return known && append ? appended(known, fields) : fields;
  },
  charsOf: (event, knownChars) => artifactChars(event) + (event.append ? knownChars : 0),
  charsOfItem: (artifact) => artifactChars(artifact),
};

/** A list this short is copied rather than kept as a list of changes: that costs less. */
const SHORT = 64;

/** The lists of snapshots whose `artifacts` are made when they are read. */
const lists = new WeakMap<object, ArtifactList>();
/** The lists of arrays that were made, so that the fold goes on from them. */
const known = new WeakMap<readonly Artifact[], ArtifactList>();

// A getter of its own for each snapshot would give each another hidden class.
const accessor: PropertyDescriptor & ThisType<object> = {
  enumerable: true,
  configurable: true,
  get(): readonly Artifact[] {
    const list = lists.get(this) as ArtifactList;
    known.set(list.items, list);
    return list.items;
  },
};

/**
 * Gives a snapshot under construction the artifacts of the one before it, or a list with one more.
 * A long list becomes a property that makes the array when it is first read.
 */
export function setArtifacts<Draft extends object>(
  draft: Draft,
  from: Snapshot,
  next: ArtifactList | readonly Artifact[] | undefined = lists.get(from),
): asserts draft is Draft & { artifacts: readonly Artifact[] } {
  const target = draft as { artifacts?: readonly Artifact[] };
  if (!(next instanceof GrowingList)) target.artifacts = next ?? from.artifacts;
  else if (next.isMade || next.atLeast < SHORT) {
    target.artifacts = next.items;
    known.set(next.items, next);
  } else {
    Object.defineProperty(draft, 'artifacts', accessor);
    lists.set(draft, next);
  }
}

/**
 * Returns the artifacts of a snapshot after one more event, which replaces its artifact or, with
 * `append`, adds its parts. Appending costs the same however long the artifact is: the joined list
 * of parts is made when it is read first.
 */
export const putArtifact = (snapshot: Snapshot, event: ArtifactEvent): ArtifactList =>
  listOf(snapshot).with(event);

function listOf(snapshot: Snapshot): ArtifactList {
  const waiting = lists.get(snapshot);
  if (waiting) return waiting;
  const { artifacts } = snapshot;
  const list = known.get(artifacts) ?? GrowingList.of(ARTIFACTS, artifacts);
  known.set(artifacts, list);
  return list;
}

/** Returns how many characters the parts, the name and the metadata of an artifact have. */
export const artifactChars = ({
  parts,
  name = '',
  metadata,
}: Omit<Artifact, 'artifactId'>): number =>
  partsChars(parts) + name.length + (metadata ? jsonChars(metadata) : 0);

/** Returns roughly how many characters the artifacts have, without making the list. */
export const artifactsChars = (snapshot: Snapshot): number => listOf(snapshot).chars;

/** Returns a number of artifacts that the snapshot has at least, without making the list. */
export const artifactsAtLeast = (snapshot: Snapshot): number =>
  lists.get(snapshot)?.atLeast ?? snapshot.artifacts.length;

const IDS: ListRules<string, string> = {
  keyOf: (id) => id,
  keyOfItem: (id) => id,
  put: (_known, id) => id,
  charsOf: (id) => id.length,
  charsOfItem: (id) => id.length,
};

type Delivered = NonNullable<Snapshot['delivered']>;
const idLists = new WeakMap<Delivered, GrowingList<string, string>>();

/** Returns the artifacts of the last run after one more, which may be known already. */
export function deliver(
  { delivered, current }: Pick<Snapshot, 'delivered' | 'current'>,
  artifactId: string,
): Delivered {
  const turn = current?.messageId ?? '';
  const before = delivered?.turn === turn ? delivered : undefined;
  const ids = (before && idLists.get(before)) ?? GrowingList.of(IDS, before?.artifacts ?? []);
  const list = ids.with(artifactId);
  const after: Delivered = {
    turn,
    get artifacts(): readonly string[] {
      return list.items;
    },
  };
  idLists.set(after, list);
  return after;
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
