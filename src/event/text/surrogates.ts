/** The first so many UTF-16 units, one less where the cut would go through a character. */
export function safePrefix(text: string, length: number): string {
  if (length >= text.length) return text;
  return text.slice(0, opens(text.charCodeAt(length - 1)) ? length - 1 : length);
}

/** Whether it ends with the first half of a character. */
export const endsInHighSurrogate = (text: string): boolean =>
  opens(text.charCodeAt(text.length - 1));

const opens = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;
