/** A JSON object from an untrusted source. Unknown members are kept; every member is `unknown`. */
export type JsonObject = { readonly [key: string]: unknown };

/** Whether the value is an object, and neither null nor an array. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns the value if it is an object, else an empty object. Use it to read untrusted data. */
export const asObject = (value: unknown): JsonObject => (isObject(value) ? value : {});

/** Returns the value if it is an array, else an empty array. */
export const asArray = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Returns the objects among the items of an array, and drops all other items. */
export const asObjects = (value: unknown): readonly JsonObject[] => asArray(value).filter(isObject);

/** Returns the value if it is a string, else `fallback`. */
export const asString = (value: unknown, fallback = ''): string =>
  typeof value === 'string' ? value : fallback;

/** Returns the strings among the items of an array, and drops all other items. */
export const asStrings = (value: unknown): readonly string[] =>
  asArray(value).filter((item) => typeof item === 'string');

/** Returns the value if it is a finite number. */
export const asNumber = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined;

/** Parses JSON text; `undefined` for text that is not JSON. */
export function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The caller knows what the text should be, and reports it.
    return undefined;
  }
}

/**
 * Returns the fields without those that are `undefined`. Hot paths keep object literals instead: V8
 * gives an object that is built member by member a shape of its own.
 */
export function omitUndefined<T extends object>(fields: {
  readonly [K in keyof T]: T[K] | undefined;
}): T {
  const kept: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) kept[name] = value;
  return kept as T;
}

/**
 * The deepest accepted nesting of JSON. Deeper values overflow the stack of a codec, a worker or a
 * browser that walks them recursively.
 */
export const MAX_DEPTH = 500;

/**
 * The largest number of values that a server accepts in one body. Parsing millions of small values
 * takes seconds and a gigabyte of memory.
 */
export const MAX_VALUES = 1_000_000;

/**
 * Whether the JSON text is nested deeper than `MAX_DEPTH`. Call this before `JSON.parse`: parsing a
 * few megabytes of brackets takes seconds, while this function stops at the first bracket beyond
 * the limit.
 */
export const isDeep = (text: string): boolean => scan(text, Infinity) === 'deep';

/**
 * Returns why a server must not parse the JSON text of a caller, or `undefined` if it may. Call
 * this before `JSON.parse`, for the reason given at `isDeep`.
 */
export function bodyProblem(text: string): string | undefined {
  switch (scan(text, MAX_VALUES)) {
    case 'deep':
      return `the body is nested more than ${MAX_DEPTH} levels deep; send fewer levels`;
    case 'many':
      return `the body has more than ${MAX_VALUES} values; split it into several requests`;
    case undefined:
      return undefined;
  }
}

/**
 * Counts brackets and commas outside of strings. Every value but the first follows a comma or an
 * opening bracket, so their number is an upper bound for the number of values.
 */
function scan(text: string, maxValues: number): 'deep' | 'many' | undefined {
  if (text.length < 2 * MAX_DEPTH) return undefined;
  let depth = 0;
  let values = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === 0x22) quoted = !quoted;
    else if (quoted) at += char === 0x5c ? 1 : 0;
    else if (char === 0x2c) values++;
    else if (char === 0x7b || char === 0x5b) {
      depth++;
      values++;
    } else if (char === 0x7d || char === 0x5d) depth--;
    if (depth > MAX_DEPTH) return 'deep';
    if (values > maxValues) return 'many';
  }
  return undefined;
}

const sizes = new WeakMap<object, number>();

/**
 * Returns roughly how many characters a value has as JSON; bytes count as their length. An object
 * is measured once, so it must not change later, and must not contain itself.
 */
export function jsonChars(value: unknown): number {
  if (typeof value !== 'object' || value === null) return measure(value);
  const known = sizes.get(value);
  if (known !== undefined) return known;
  const chars = measure(value);
  sizes.set(value, chars);
  return chars;
}

function measure(value: unknown): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 8;
  if (value instanceof Uint8Array) return value.length;
  let chars = 2;
  if (Array.isArray(value)) for (const item of value) chars += 1 + measure(item);
  else
    for (const name of Object.keys(value))
      chars += name.length + 4 + measure((value as JsonObject)[name]);
  return chars;
}
