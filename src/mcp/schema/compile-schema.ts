import { createRequire } from 'node:module';
import type * as Zod from 'zod/v4';
import { errorMessage, invalid } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { compileJsonSchema } from './json-schema.ts';
import { zod3ToJsonSchema } from './zod3.ts';

/** What is wrong with a value, and where. */
export interface SchemaProblem {
  readonly path: readonly string[];
  readonly message: string;
}

export type SchemaResult =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problems: readonly SchemaProblem[] };

/** A schema of any library, compiled. `json` describes what the caller sends. */
export interface CompiledSchema {
  readonly json: JsonObject;
  /**
   * Checks a value. The result has the value for the handler, with the defaults and transforms of
   * the schema.
   */
  check(value: unknown): SchemaResult | Promise<SchemaResult>;
}

/**
 * Compiles a zod 3 or 4 shape or object, any Standard Schema that provides its JSON Schema, or JSON
 * Schema. Throws `invalid` with the reason if it does not describe an object. Schemas are
 * recognized by their structure: zod is loaded only for a zod 4 schema that is too old to describe
 * itself, ajv only for JSON Schema.
 */
export function compileSchema(input: unknown): CompiledSchema {
  const compiled = compile(input);
  if (compiled.json['type'] !== 'object')
    throw invalid(
      `expected a schema of an object, got ${JSON.stringify(compiled.json['type'] ?? 'no type')}`,
    );
  return compiled;
}

function compile(input: unknown): CompiledSchema {
  if (isSchema(input)) return compileField(input).schema;
  if (!isObject(input))
    throw invalid(`expected a schema, got ${input === null ? 'null' : typeof input}`);
  const fields = Object.entries(input);
  if (fields.length === 0) return compileShape([]);
  const schemas = fields.filter(([, value]) => isSchema(value));
  if (schemas.length === 0) return compileJsonSchema(input);
  const odd = fields.find(([, value]) => !isSchema(value));
  if (odd) throw invalid(`expected a schema in field "${odd[0]}", as in the other fields`);
  return compileShape(fields as Array<[string, ForeignSchema]>);
}

interface StandardIssue {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }>;
}
type StandardResult =
  | { readonly value: unknown; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };

/** The parts of zod 3, zod 4 and Standard Schema that we use. */
interface ForeignSchema {
  readonly '~standard'?: {
    validate(value: unknown): StandardResult | Promise<StandardResult>;
    readonly jsonSchema?: { input(options: { target: string }): JsonObject };
  };
  /** zod 4; `optin` is set if a field may be omitted */
  readonly _zod?: { readonly optin?: string; readonly def?: unknown };
  /** zod 3 */
  readonly _def?: JsonObject;
  safeParseAsync?(
    value: unknown,
  ): Promise<{ success: boolean; data?: unknown; error?: { issues: readonly StandardIssue[] } }>;
  isOptional?(): boolean;
}

const isSchema = (value: unknown): value is ForeignSchema =>
  ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
  ('~standard' in value || '_zod' in value || ('_def' in value && 'safeParseAsync' in value));

interface Field {
  readonly schema: CompiledSchema;
  readonly optional: boolean;
}

function compileField(schema: ForeignSchema): Field {
  const { $schema: _, ...json } = describe(schema);
  return {
    schema: { json, check: validator(schema) },
    optional: schema._zod ? schema._zod.optin !== undefined : (schema.isOptional?.() ?? false),
  };
}

/** Returns the JSON Schema of what a schema accepts as input. */
function describe(schema: ForeignSchema): JsonObject {
  const own = schema['~standard']?.jsonSchema;
  if (own) return own.input({ target: 'draft-2020-12' });
  if (schema._zod) {
    // The path of zod 4 in both of its packages: 3.25 and 4.
    const zod = createRequire(import.meta.url)('zod/v4') as typeof Zod;
    return zod.toJSONSchema(schema as unknown as Zod.ZodType, { io: 'input' });
  }
  if (schema._def && 'typeName' in schema._def) return zod3ToJsonSchema(schema);
  throw invalid('its library does not provide its JSON Schema; use zod or write JSON Schema');
}

/**
 * Chooses between synchronous and asynchronous validation. zod tries every schema synchronously
 * first and drops the promise of one that is asynchronous: its function would run twice, and if it
 * rejects, the unhandled rejection would end the process. So a schema with functions is validated
 * asynchronously from the start.
 */
function validator(schema: ForeignSchema): CompiledSchema['check'] {
  const standard = schema['~standard'];
  const mayWait = schema._zod ? hasFunction(schema, new Set()) : schema._def !== undefined;
  if (schema.safeParseAsync && (mayWait || !standard))
    return async (value) => {
      const { success, data, error } = await schema.safeParseAsync!(value);
      return fromStandard(success ? { value: data } : { issues: error?.issues ?? [] });
    };
  return (value) => {
    const result = standard!.validate(value);
    return result instanceof Promise ? result.then(fromStandard) : fromStandard(result);
  };
}

/**
 * Members that hold functions which zod always calls synchronously: the message of a problem, the
 * condition of a check, `trim` and similar.
 */
const AT_ONCE: ReadonlySet<string> = new Set(['error', 'when', 'tx']);

/** Whether a zod 4 schema, or one inside it, calls a function of the program. */
function hasFunction(part: unknown, seen: Set<unknown>): boolean {
  if (typeof part === 'function' && !('_zod' in part)) return true;
  if (part === null || (typeof part !== 'object' && typeof part !== 'function')) return false;
  if (seen.has(part)) return false;
  seen.add(part);
  const inside = '_zod' in part ? (part._zod as { readonly def?: unknown }).def : part;
  return Object.entries(inside ?? {}).some(
    ([key, value]) => !AT_ONCE.has(key) && hasFunction(value, seen),
  );
}

const fromStandard = (result: StandardResult): SchemaResult =>
  result.issues
    ? { ok: false, problems: result.issues.map(fromIssue) }
    : { ok: true, value: result.value };

const fromIssue = ({ path = [], message }: StandardIssue): SchemaProblem => ({
  path: path.map((part) => String(typeof part === 'object' ? part.key : part)),
  message,
});

/** Compiles a shape as `z.object(shape)` does, without loading zod: unknown fields are removed. */
function compileShape(shape: ReadonlyArray<[string, ForeignSchema]>): CompiledSchema {
  const fields = shape.map(
    ([name, schema]) => [name, inField(name, () => compileField(schema))] as const,
  );
  const required = fields.filter(([, field]) => !field.optional).map(([name]) => name);
  const json = {
    type: 'object',
    properties: Object.fromEntries(
      fields.map(([name, { schema }]) => [
        name,
        moveRefs(schema.json, `#/properties/${pointer(name)}`),
      ]),
    ),
    ...(required.length > 0 && { required }),
  };
  const check = (value: unknown): SchemaResult | Promise<SchemaResult> => {
    if (!isObject(value))
      return { ok: false, problems: [{ path: [], message: 'must be an object' }] };
    const results: Array<SchemaResult | Promise<SchemaResult>> = [];
    let waits = false;
    for (const [name, { schema }] of fields) {
      const result = attempt(() =>
        schema.check(Object.hasOwn(value, name) ? value[name] : undefined),
      );
      waits ||= result instanceof Promise;
      results.push(result);
    }
    if (!waits) return assembled(results as SchemaResult[], value);
    return Promise.all(results.map(async (each) => each)).then((all) => assembled(all, value));
  };
  const assembled = (results: readonly SchemaResult[], given: JsonObject): SchemaResult => {
    const problems: SchemaProblem[] = [];
    const checked: Array<[string, unknown]> = [];
    for (const [index, [name]] of fields.entries()) {
      const result = results[index]!;
      if (!result.ok)
        for (const { path, message } of result.problems)
          problems.push({ path: [name, ...path], message });
      else if (result.value !== undefined || Object.hasOwn(given, name))
        checked.push([name, result.value]);
    }
    return problems.length > 0
      ? { ok: false, problems }
      : { ok: true, value: Object.fromEntries(checked) };
  };
  return { json, check };
}

/**
 * Turns a throw into a rejection, so that the promises of the fields before it are still awaited.
 */
function attempt(
  run: () => SchemaResult | Promise<SchemaResult>,
): SchemaResult | Promise<SchemaResult> {
  try {
    return run();
  } catch (error) {
    return Promise.reject(error);
  }
}

/** Prefixes the error of a field's schema with the name of the field. */
function inField<T>(name: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw invalid(`field "${name}": ${errorMessage(error)}`, error);
  }
}

const pointer = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1');

/**
 * Adapts references. `#` means the root of a schema; when the schema becomes a field, its
 * references must point to its new position.
 */
function moveRefs<T>(schema: T, root: string): T {
  if (Array.isArray(schema)) return schema.map((item: unknown) => moveRefs(item, root)) as T;
  if (!isObject(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => {
      if (key === '$ref' && typeof value === 'string' && value.startsWith('#'))
        return [key, root + value.slice(1)];
      return [key, key === 'const' || key === 'default' ? value : moveRefs(value, root)];
    }),
  ) as T;
}

const SHOWN = 10;

/**
 * Joins the problems into one text that names each field: `kind: must be one of: bug, task; title:
 * …`.
 */
export function describeProblems(problems: readonly SchemaProblem[]): string {
  const lines = problems
    .slice(0, SHOWN)
    .map(({ path, message }) => (path.length > 0 ? `${path.join('.')}: ${message}` : message));
  if (problems.length > SHOWN) lines.push(`and ${problems.length - SHOWN} more`);
  return lines.join('; ');
}
