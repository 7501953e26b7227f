import type { Encoder } from '../../event/types.ts';
import type { ArtifactUpdate, A2AStreamEvent } from '../protocol/model.ts';

/**
 * The same encoder with fewer and larger chunks, for a reader that pays for each event: pieces of
 * text that are appended to one artifact wait until they have `chars` characters, their block ends
 * or something else is to be said. Pure like its encoder, so a replay joins alike.
 */
export function mergeChunks(
  encode: Encoder<A2AStreamEvent>,
  chars: number,
): Encoder<A2AStreamEvent> {
  let held: ArtifactUpdate | undefined;
  const take = (): A2AStreamEvent[] => {
    const out = held ? [{ artifactUpdate: held }] : [];
    held = undefined;
    return out;
  };
  return (entry) => {
    const outs = encode(entry).flatMap((event) => {
      const update = 'artifactUpdate' in event ? event.artifactUpdate : undefined;
      if (!update || textOf(update) === undefined) return [...take(), event];
      const joins = held?.artifact.artifactId === update.artifact.artifactId && update.append;
      const before = joins ? [] : take();
      held = joins ? join(held as ArtifactUpdate, update) : update;
      const full = update.lastChunk || (textOf(held) as string).length >= chars;
      return full ? [...before, ...take()] : before;
    });
    const over = entry.type === 'text.end' || entry.type === 'run.finished';
    return over ? [...outs, ...take()] : outs;
  };
}

/** The text of a chunk that has nothing else. */
function textOf({ artifact }: ArtifactUpdate): string | undefined {
  const [only, another] = artifact.parts;
  return another ? undefined : only?.text;
}

function join(held: ArtifactUpdate, next: ArtifactUpdate): ArtifactUpdate {
  const [part] = held.artifact.parts;
  const text = `${textOf(held)}${textOf(next)}`;
  return {
    ...held,
    artifact: { ...held.artifact, parts: [{ ...part, text }] },
    ...(next.lastChunk && { lastChunk: true }),
  };
}
