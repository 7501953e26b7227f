import { createRequire } from 'node:module';
import type { Ajv, ErrorObject } from 'ajv';
import { errorMessage, invalid } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { CompiledSchema, SchemaProblem } from './compile-schema.ts';

const loaded = new Map<string, Ajv>();

/**
 * Compiles JSON Schema, draft 2020-12 unless `$schema` names draft-07 or older. Formats and unknown
 * keywords are annotations, not rules, as the standard specifies. Throws `invalid` with the reason.
 */
export function compileJsonSchema(schema: JsonObject): CompiledSchema {
  const dialect = /draft-0[4-7]/.test(String(schema['$schema'])) ? 'ajv' : 'ajv/dist/2020.js';
  const ajv = loaded.get(dialect) ?? load(dialect);
  // We choose the dialect, so a `$schema` that ajv does not know must not make it fail.
  const { $schema: _, ...rules } = schema;
  try {
    const validate = ajv.compile(rules);
    // Only the compiled function is needed: a registered schema stays in memory, and its `$id`
    // makes ajv refuse the next schema with the same one.
    ajv.removeSchema(rules);
    // Its result would be a promise, which counts as valid.
    if ('$async' in validate) throw new Error('$async is not supported');
    return {
      json: schema,
      check: (value) =>
        validate(value)
          ? { ok: true, value }
          : { ok: false, problems: (validate.errors ?? []).map(toProblem) },
    };
  } catch (error) {
    const message = `expected valid JSON Schema: ${errorMessage(error)}`;
    throw invalid(message, error);
  }
}

/** Loads ajv on first use: a program without JSON Schema does not need it. */
function load(dialect: string): Ajv {
  const { default: AjvClass } = createRequire(import.meta.url)(dialect) as {
    default: typeof Ajv;
  };
  const ajv = new AjvClass({
    strict: false,
    allErrors: true,
    validateFormats: false,
    logger: false,
  });
  loaded.set(dialect, ajv);
  return ajv;
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
