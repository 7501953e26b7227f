import type { Entry, Note } from '../../../src/event/types.ts';
import { Channel } from '../../../src/stream/channel.ts';
import { onAbort } from '../../../src/stream/abort.ts';
import type { Claim } from '../../../src/task/types.ts';

/** The notes of a claim as a loop, which ends when the claim is lost. */
export function notesOf(claim: Claim): AsyncIterable<Entry & Note> {
  const notes = new Channel<Entry & Note>();
  claim.onNote((note) => {
    if (!notes.ended) notes.offer(note);
  });
  onAbort(claim.signal, () => notes.close());
  return notes;
}
