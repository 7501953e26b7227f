import { invalid } from '../../errors.ts';
import { isObject, type JsonObject, omitUndefined } from '../../json.ts';

interface Zod3 {
  readonly _def?: JsonObject;
}

type Def = JsonObject & { readonly typeName?: string };

/**
 * The nesting limit. It is deep enough for any schema that a person writes, and stops at a schema
 * that contains itself.
 */
const MAX_DEPTH = 64;

/**
 * Converts a zod 3 schema to the JSON Schema of its input. Zod 3 has no such function, so this
 * reads its definitions. A kind that JSON does not have (dates, maps, functions) throws `invalid`.
 */
export function zod3ToJsonSchema(schema: Zod3): JsonObject {
  return convert(schema, 0);
}

function convert(schema: unknown, depth: number): JsonObject {
  const def = (isObject(schema) ? schema['_def'] : undefined) as Def | undefined;
  if (!def) throw invalid('expected a zod schema in every part of it');
  if (depth > MAX_DEPTH)
    throw invalid('the schema contains itself; write a recursive schema as JSON Schema');
  const convertKind = CONVERT.get(def.typeName);
  if (!convertKind)
    throw invalid(
      `JSON Schema has no equivalent of ${def.typeName ?? 'this kind'}; use another zod type`,
    );
  const json = convertKind(def, (part) => convert(part, depth + 1));
  const description = def['description'];
  return typeof description === 'string' ? { ...json, description } : json;
}

type Convert = (def: Def, of: (schema: unknown) => JsonObject) => JsonObject;

const anything: Convert = () => ({});
const inner: Convert = (def, of) => of(def['innerType']);

/** The conversion of each kind, by the name that zod gives it. */
const CONVERT = new Map<string | undefined, Convert>(
  Object.entries<Convert>({
    ZodString: (def) => ({ type: 'string', ...stringChecks(def) }),
    ZodNumber: (def) => ({ type: 'number', ...numberChecks(def) }),
    ZodBoolean: () => ({ type: 'boolean' }),
    ZodNull: () => ({ type: 'null' }),
    ZodAny: anything,
    ZodUnknown: anything,
    ZodNever: () => ({ not: {} }),
    ZodLiteral: (def) => ({ const: def['value'] }),
    ZodEnum: (def) => ({ type: 'string', enum: def['values'] }),
    ZodNativeEnum: (def) => ({
      enum: enumValues(def['values'] as Record<string, string | number>),
    }),
    ZodArray: arrayOf,
    ZodTuple: tupleOf,
    ZodObject: objectOf,
    ZodRecord: (def, of) => ({ type: 'object', additionalProperties: of(def['valueType']) }),
    ZodUnion: (def, of) => ({ anyOf: (def['options'] as unknown[]).map(of) }),
    ZodDiscriminatedUnion: (def, of) => ({
      anyOf: [...(def['options'] as Iterable<unknown>)].map(of),
    }),
    ZodIntersection: (def, of) => ({ allOf: [of(def['left']), of(def['right'])] }),
    ZodNullable: (def, of) => ({ anyOf: [inner(def, of), { type: 'null' }] }),
    ZodDefault: (def, of) => ({
      ...inner(def, of),
      default: (def['defaultValue'] as () => unknown)(),
    }),
    ZodOptional: inner,
    ZodReadonly: inner,
    ZodCatch: inner,
    ZodBranded: (def, of) => of(def['type']),
    ZodEffects: (def, of) => of(def['schema']),
    ZodPipeline: (def, of) => of(def['in']),
    ZodLazy: (def, of) => of((def['getter'] as () => unknown)()),
  }),
);

interface Check extends JsonObject {
  readonly kind: string;
  readonly value?: number;
}

const checks = (def: Def): readonly Check[] => (def['checks'] ?? []) as readonly Check[];

function stringChecks(def: Def): JsonObject {
  const json: Record<string, unknown> = {};
  for (const { kind, value, regex } of checks(def)) {
    if (kind === 'min' || kind === 'length') json['minLength'] = value;
    if (kind === 'max' || kind === 'length') json['maxLength'] = value;
    if (kind === 'regex') json['pattern'] = (regex as RegExp).source;
    if (kind === 'email' || kind === 'uuid') json['format'] = kind;
    if (kind === 'url') json['format'] = 'uri';
    if (kind === 'datetime') json['format'] = 'date-time';
  }
  return json;
}

function numberChecks(def: Def): JsonObject {
  const json: Record<string, unknown> = {};
  for (const { kind, value, inclusive } of checks(def)) {
    if (kind === 'int') json['type'] = 'integer';
    if (kind === 'min') json[inclusive ? 'minimum' : 'exclusiveMinimum'] = value;
    if (kind === 'max') json[inclusive ? 'maximum' : 'exclusiveMaximum'] = value;
    if (kind === 'multipleOf') json['multipleOf'] = value;
  }
  return json;
}

/**
 * The values of a native enum. A numeric TypeScript enum also maps its numbers back to names; those
 * keys are not values.
 */
const enumValues = (values: Record<string, string | number>): unknown[] =>
  Object.entries(values)
    .filter(([key]) => typeof values[values[key] as string] !== 'number')
    .map(([, value]) => value);

function arrayOf(def: Def, of: (schema: unknown) => JsonObject): JsonObject {
  const limit = (name: string): number | undefined =>
    (def[name] as { value: number } | null | undefined)?.value;
  const exact = limit('exactLength');
  const min = exact ?? limit('minLength');
  const max = exact ?? limit('maxLength');
  return omitUndefined({ type: 'array', items: of(def['type']), minItems: min, maxItems: max });
}

function tupleOf(def: Def, of: (schema: unknown) => JsonObject): JsonObject {
  const items = (def['items'] as unknown[]).map(of);
  const rest = def['rest'] ? of(def['rest']) : false;
  return { type: 'array', prefixItems: items, items: rest, minItems: items.length };
}

function objectOf(def: Def, of: (schema: unknown) => JsonObject): JsonObject {
  const shape = Object.entries((def['shape'] as () => Record<string, unknown>)());
  const required = shape
    .filter(([, field]) => !(field as { isOptional(): boolean }).isOptional())
    .map(([name]) => name);
  return {
    type: 'object',
    properties: Object.fromEntries(shape.map(([name, field]) => [name, of(field)])),
    ...(required.length > 0 && { required }),
    ...(def['unknownKeys'] === 'strict' && { additionalProperties: false }),
  };
}
