/** The bytes of a text in UTF-8. A lone surrogate counts as two; `Buffer` counts three. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    // Two bytes, or half of a surrogate pair, which has four; else three.
    if (unit > 0x7f) bytes += unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 1 : 2;
  }
  return bytes;
}

const { Buffer: native } = globalThis as {
  readonly Buffer?: { readonly byteLength: (text: string) => number };
};

/** `utf8Length`, by `Buffer` where it exists: browsers have none, and it is twice as fast. */
export const byteLength: (text: string) => number = native?.byteLength ?? utf8Length;
