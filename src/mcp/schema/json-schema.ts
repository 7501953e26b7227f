import { createRequire } from 'node:module';
import type { Ajv, ErrorObject } from 'ajv';
import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { CompiledSchema, SchemaProblem } from './compile-schema.ts';

const loaded = new Map<string, Ajv>();

/**
 * Plain JSON Schema, draft 2020-12 unless `$schema` says draft-07 or older. Formats and unknown
 * keywords are notes, not rules, as the standard has it. Throws `invalid` with the reason.
 */
export function compileJsonSchema(schema: JsonObject): CompiledSchema {
  const dialect = /draft-0[4-7]/.test(String(schema['$schema'])) ? 'ajv' : 'ajv/dist/2020.js';
  const ajv = loaded.get(dialect) ?? load(dialect);
  // The dialect is ours to choose, so a `$schema` that ajv has not heard of must not stop it.
  const { $schema: _, ...rules } = schema;
  try {
    const validate = ajv.compile(rules);
    // Compiled is all we need: a kept schema would hold memory, and its $id would refuse the next.
    ajv.removeSchema(rules);
    return {
      json: schema,
      check: (value) =>
        validate(value)
          ? { ok: true, value }
          : { ok: false, problems: (validate.errors ?? []).map(toProblem) },
    };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new DuolaneError('invalid', `it is not valid JSON Schema: ${reason}`, { cause: error });
  }
}

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
