/** A JSON object as it comes off a wire: unknown members are kept, nothing is assumed. */
export type JsonObject = { readonly [key: string]: unknown };

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The deepest nesting that is accepted. Deeper values overflow the stack of a codec, a worker or a browser that walks them. */
export const MAX_DEPTH = 500;

/** What a server answers for a body that is nested too deeply. */
export const TOO_DEEP: string = `the body is nested more than ${MAX_DEPTH} levels deep; make it flatter`;

/**
 * Whether the JSON text is nested deeper than `MAX_DEPTH`. Ask before `JSON.parse`: it needs seconds
 * for some megabytes of brackets, while this stops at the first bracket beyond the limit.
 */
export function isDeep(text: string): boolean {
  if (text.length < 2 * MAX_DEPTH) return false;
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === 0x22) quoted = !quoted;
    else if (quoted) at += char === 0x5c ? 1 : 0;
    else if (char === 0x7b || char === 0x5b) depth++;
    else if (char === 0x7d || char === 0x5d) depth--;
    if (depth > MAX_DEPTH) return true;
  }
  return false;
}
