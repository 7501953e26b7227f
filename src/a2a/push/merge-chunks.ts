import type { Encoder } from '../../event/types.ts';
import type { ArtifactUpdate, A2AStreamEvent } from '../protocol/model.ts';

/**
 * The same encoder with fewer and larger chunks, for a reader to which each event is a request:
 * text that is appended to one artifact is kept until it has `chars` characters, its block ends or
 * a different event follows. It depends on the entries only, so a replay merges them the same way.
 */
export function mergeChunks(
  encode: Encoder<A2AStreamEvent>,
  chars: number,
): Encoder<A2AStreamEvent> {
  let kept: ArtifactUpdate | undefined;
  const take = (): A2AStreamEvent[] => {
    const out = kept ? [{ artifactUpdate: kept }] : [];
    kept = undefined;
    return out;
  };
  return (entry) => {
    const outs = encode(entry).flatMap((event) => {
      const update = 'artifactUpdate' in event ? event.artifactUpdate : undefined;
      if (!update || textOf(update) === undefined) return [...take(), event];
      const joins = kept?.artifact.artifactId === update.artifact.artifactId && update.append;
      const before = joins ? [] : take();
      kept = joins ? join(kept as ArtifactUpdate, update) : update;
      const full = update.lastChunk || (textOf(kept) as string).length >= chars;
      return full ? [...before, ...take()] : before;
    });
    const ends = entry.type === 'text.end' || entry.type === 'run.finished';
    return ends ? [...outs, ...take()] : outs;
  };
}

/** The text of a chunk whose only part is text; undefined for any other chunk. */
function textOf({ artifact }: ArtifactUpdate): string | undefined {
  const [only, another] = artifact.parts;
  return another ? undefined : only?.text;
}

function join(first: ArtifactUpdate, next: ArtifactUpdate): ArtifactUpdate {
  const [part] = first.artifact.parts;
  const text = `${textOf(first)}${textOf(next)}`;
  return {
    ...first,
    artifact: { ...first.artifact, parts: [{ ...part, text }] },
    ...(next.lastChunk && { lastChunk: true }),
  };
}
