/** A JSON object as it comes off a wire: unknown members are kept, nothing is assumed. */
export type JsonObject = { readonly [key: string]: unknown };

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The value if it is an object, else an empty one. For members of data that is not trusted. */
export const asObject = (value: unknown): JsonObject => (isObject(value) ? value : {});

/** The items of an array, or none for anything else. */
export const asArray = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** The objects among the items of an array. */
export const asObjects = (value: unknown): readonly JsonObject[] => asArray(value).filter(isObject);

/** The value if it is a string, else `fallback`. */
export const asString = (value: unknown, fallback = ''): string =>
  typeof value === 'string' ? value : fallback;

/** The strings among the items of an array. */
export const asStrings = (value: unknown): readonly string[] =>
  asArray(value).filter((item) => typeof item === 'string');

/** The value if it is a finite number. */
export const asNumber = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined;

/**
 * The same fields without those that are `undefined`. Hot paths write their literals instead: an
 * object that is built member by member has a shape of its own.
 */
export function omitUndefined<T extends object>(fields: {
  readonly [K in keyof T]: T[K] | undefined;
}): T {
  const kept: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) kept[name] = value;
  return kept as T;
}

/** The deepest nesting that is accepted. Deeper values overflow the stack of a codec, a worker or a browser that walks them. */
export const MAX_DEPTH = 500;

/** The most values that a server reads of one body. Millions of small ones take seconds and a gigabyte to parse. */
export const MAX_VALUES = 1_000_000;

/**
 * Whether the JSON text is nested deeper than `MAX_DEPTH`. Ask before `JSON.parse`: it needs seconds
 * for some megabytes of brackets, while this stops at the first bracket beyond the limit.
 */
export const isDeep = (text: string): boolean => scan(text, Infinity) === 'deep';

/** Why a server must not parse the JSON text of a caller, if so. Asked before `JSON.parse`, as above. */
export function bodyProblem(text: string): string | undefined {
  switch (scan(text, MAX_VALUES)) {
    case 'deep':
      return `the body is nested more than ${MAX_DEPTH} levels deep; make it flatter`;
    case 'many':
      return `the body has more than ${MAX_VALUES} values; send fewer of them at a time`;
    case undefined:
      return undefined;
  }
}

/** Every value stands behind a comma or an opening bracket, apart from the first. */
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
