// Matched as a whole: what follows a yes may take it back ("yes, but not that one").
const YES =
  /^(?:y|yes|ok|okay|approved?|accept(?:ed)?|allow(?:ed)?|confirm(?:ed)?|true)(?:[\s,.!]+(?:it|this|that|please|thanks|thank you|approved|confirmed))*[\s.!]*$/i;
const NO = /^(?:n|no|reject(?:ed)?|declined?|deny|denied|false)\b/i;

/** A longer text says more than yes, and is not searched for one. */
const MAX_YES_CHARS = 100;

/**
 * The decision in a person's words, for every place where a person may decide in words (terminal,
 * A2A, front ends): `accept` for a text that is nothing but a yes, `decline` for one that begins
 * with a no. Anything else is undefined, and must not do anything: ask again.
 */
export function parseDecision(words: string): 'accept' | 'decline' | undefined {
  const said = words.trim();
  if (said.length <= MAX_YES_CHARS && YES.test(said)) return 'accept';
  return NO.test(said) ? 'decline' : undefined;
}
