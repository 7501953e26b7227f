/** Returns the first `length` UTF-16 units, or one less if that would split a surrogate pair. */
export function safePrefix(text: string, length: number): string {
  if (length >= text.length) return text;
  return text.slice(0, opens(text.charCodeAt(length - 1)) ? length - 1 : length);
}

/** Whether the text ends with the first half of a surrogate pair. */
export const endsInHighSurrogate = (text: string): boolean =>
  opens(text.charCodeAt(text.length - 1));

const opens = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;
