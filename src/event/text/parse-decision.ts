// Matches the complete text: in "yes, but not that one" the rest retracts the approval.
const YES =
  /^(?:y|yes|ok|okay|approved?|accept(?:ed)?|allow(?:ed)?|confirm(?:ed)?|true)(?:[\s,.!]+(?:it|this|that|please|thanks|thank you|approved|confirmed))*[\s.!]*$/i;
const NO = /^(?:n|no|reject(?:ed)?|declined?|deny|denied|false)\b/i;

/** A longer text says more than yes, so it is not matched. */
const MAX_YES_CHARS = 100;

/**
 * Parses a person's decision from text, everywhere that a person may decide by text (terminal, A2A,
 * front ends): `accept` for a text that is only a yes, `decline` for one that begins with a no.
 * Anything else is undefined: ask again, and do nothing until then.
 *
 * @example
 * ```ts
 * parseDecision('Yes, please.'); // 'accept'
 * parseDecision('yes, but not that one'); // undefined
 * ```
 */
export function parseDecision(text: string): 'accept' | 'decline' | undefined {
  const trimmed = text.trim();
  if (trimmed.length <= MAX_YES_CHARS && YES.test(trimmed)) return 'accept';
  return NO.test(trimmed) ? 'decline' : undefined;
}
