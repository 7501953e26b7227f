// The whole of it: what goes on behind a yes may take it back, and the half that counts would be lost.
const YES =
  /^(?:y|yes|ok|okay|approved?|accept(?:ed)?|allow(?:ed)?|confirm(?:ed)?|true)(?:[\s,.!]+(?:it|this|that|please|thanks|thank you|approved|confirmed))*[\s.!]*$/i;
const NO = /^(?:n|no|reject(?:ed)?|declined?|deny|denied|false)\b/i;

/** A decision in words, if they are nothing but a yes, or begin with a no. Nothing is done by what is neither. */
export function decisionOf(words: string): 'accept' | 'decline' | undefined {
  const said = words.trim();
  if (YES.test(said)) return 'accept';
  return NO.test(said) ? 'decline' : undefined;
}
