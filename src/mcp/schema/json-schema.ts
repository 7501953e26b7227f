import { createRequire } from 'node:module';
import type { Ajv, ErrorObject } from 'ajv';
import { errorMessage, invalid } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import type { CompiledSchema, SchemaProblem, SchemaResult } from './compile-schema.ts';

/** Of a value with more members and items than this, only the first problem is reported. */
const MAX_LISTED = 1000;

/** After so many schemas that are used once, they are forgotten: ajv itself keeps all of them. */
const MAX_COMPILED = 100;

/** The validators of some schemas, by dialect. */
class Validators {
  /** How many schemas were compiled. */
  compiled = 0;
  readonly #loaded = new Map<string, Ajv>();

  /** `all`: the validator reports all problems, not only the first one. */
  compile(schema: JsonObject, all: boolean): ReturnType<Ajv['compile']> {
    const dialect = /draft-0[4-7]/.test(String(schema['$schema'])) ? 'ajv' : 'ajv/dist/2020.js';
    const name = `${dialect} ${all}`;
    const ajv = this.#loaded.get(name) ?? loadAjv(dialect, all);
    this.#loaded.set(name, ajv);
    this.compiled += 1;
    // We choose the dialect, so a `$schema` that ajv does not know must not make it fail.
    const { $schema: _, ...rules } = schema;
    const validate = ajv.compile(rules);
    // Only the compiled function is needed: a registered schema stays in memory, and its `$id`
    // makes ajv refuse the next schema with the same one.
    ajv.removeSchema(rules);
    // Its result would be a promise, which counts as valid.
    if ('$async' in validate) throw new Error('$async is not supported');
    return validate;
  }
}

const lasting = new Validators();
let passing = new Validators();

/**
 * Compiles JSON Schema, draft 2020-12 unless `$schema` names draft-07 or older. Formats and unknown
 * keywords are annotations, not rules, as the standard specifies. Throws `invalid` with the reason.
 */
export const compileJsonSchema = (schema: JsonObject): CompiledSchema => compile(schema, lasting);

/**
 * Checks a value against a schema that comes with it, such as that of a form. The compiled schema
 * is not kept. Throws `invalid` for an invalid schema.
 */
export function checkOnce(schema: JsonObject, value: unknown): SchemaResult {
  if (passing.compiled >= MAX_COMPILED) passing = new Validators();
  return compile(schema, passing).check(value);
}

function compile(
  schema: JsonObject,
  validators: Validators,
): { readonly json: JsonObject; check(value: unknown): SchemaResult } {
  let validate: ReturnType<Ajv['compile']>;
  let validateAll: ReturnType<Ajv['compile']> | undefined;
  try {
    validate = validators.compile(schema, false);
  } catch (error) {
    const message = `expected valid JSON Schema: ${errorMessage(error)}`;
    throw invalid(message, error);
  }
  /** A list of a million wrong items has as many problems, which take a gigabyte and seconds. */
  const problemsOf = (value: unknown): readonly ErrorObject[] => {
    const { errors } = validate;
    if (isLong(value)) return errors ?? [];
    validateAll ??= validators.compile(schema, true);
    return validateAll(value) ? [] : (validateAll.errors ?? []);
  };
  return {
    json: schema,
    check: (value) =>
      validate(value)
        ? { ok: true, value }
        : { ok: false, problems: problemsOf(value).map(toProblem) },
  };
}

/** Loads ajv on first use: a program without JSON Schema does not need it. */
function loadAjv(dialect: string, allErrors: boolean): Ajv {
  const { default: AjvClass } = createRequire(import.meta.url)(dialect) as {
    default: typeof Ajv;
  };
  const ajv = new AjvClass({ strict: false, allErrors, validateFormats: false, logger: false });
  // ajv compares each item with all others, so a list that a caller sends could block the process
  // for hours.
  ajv.removeKeyword('uniqueItems');
  return ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    errors: false,
    error: { message: 'must NOT have duplicate items' },
    validate: (isWanted: boolean, items: readonly unknown[]) => !isWanted || areUnique(items),
  });
}

const areUnique = (items: readonly unknown[]): boolean =>
  new Set(items.map(canonicalText)).size === items.length;

/** The same text for equal JSON values, whatever the order of their members is. */
function canonicalText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? 'null';
  const members = Object.keys(value)
    .toSorted()
    .map((name) => `${JSON.stringify(name)}:${canonicalText(value[name])}`);
  return `{${members.join(',')}}`;
}

/** Whether the value has more than `MAX_LISTED` members and items. */
function isLong(value: unknown): boolean {
  const values = [value];
  for (let at = 0; at < values.length; at++) {
    const inner = values[at];
    if (typeof inner !== 'object' || inner === null) continue;
    for (const each of Object.values(inner)) if (values.push(each) > MAX_LISTED) return true;
  }
  return false;
}

function toProblem({ instancePath, keyword, params, message }: ErrorObject): SchemaProblem {
  const path = instancePath
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
  const named = params as JsonObject;
  switch (keyword) {
    case 'required':
      return { path: [...path, String(named['missingProperty'])], message: 'is required' };
    case 'additionalProperties':
      return { path: [...path, String(named['additionalProperty'])], message: 'is not known' };
    case 'enum':
      return {
        path,
        message: `must be one of: ${(named['allowedValues'] as unknown[]).join(', ')}`,
      };
    case 'const':
      return { path, message: `must be ${JSON.stringify(named['allowedValue'])}` };
    default:
      return { path, message: message ?? `does not meet ${keyword}` };
  }
}
