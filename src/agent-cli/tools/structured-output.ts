import type { Ajv } from 'ajv';
import { DuolaneError, errorMessage } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { type AgentTool, failedOutcome, success } from './types.ts';

export const STRUCTURED_OUTPUT = 'StructuredOutput';
/** After this many messages without a valid output the turn ends with an error. */
export const MAX_FAILURES = 5;
/** The reminder for a model that ended its message without calling the tool. */
export const ENFORCE: string = `Call the ${STRUCTURED_OUTPUT} tool now: the result of this request must be given through it.`;

/** Checks a value against a schema; returns the problems, or undefined for a valid value. */
export type SchemaCheck = (value: unknown) => string | undefined;

/** Compiles a schema. Throws `invalid` if it is not a valid JSON schema. */
export async function compileOutputSchema(schema: JsonObject): Promise<SchemaCheck> {
  const { $schema, ...rest } = schema; // ajv refuses a `$schema` whose name it does not know
  const ajv = await validatorOf($schema);
  let validate: ReturnType<typeof ajv.compile>;
  try {
    validate = ajv.compile(rest);
    // Its result would be a promise, which counts as valid.
    if ('$async' in validate) throw new Error('$async is not supported');
  } catch (cause) {
    throw new DuolaneError(
      'invalid',
      `invalid output schema: expected a JSON schema: ${errorMessage(cause)}`,
      { cause },
    );
  }
  return (value) =>
    validate(value)
      ? undefined
      : (validate.errors ?? [])
          .map(({ instancePath, message }) => `${instancePath || 'root'}: ${message ?? 'invalid'}`)
          .join(', ');
}

/**
 * The tool through which a model gives its structured output. Throws `invalid` for a bad schema.
 */
export async function structuredTool(schema: JsonObject): Promise<AgentTool> {
  const check = await compileOutputSchema(schema);
  return {
    spec: {
      name: STRUCTURED_OUTPUT,
      description: 'Returns the final result in the requested structure. Call it once, at the end.',
      input_schema: { ...schema, type: 'object' },
    },
    readOnly: false,
    facts: () => ({ edit: false }),
    async call(input) {
      const problem = check(input);
      if (problem === undefined) return success('The output was accepted.', input);
      return failedOutcome(`The output does not match the schema: ${problem}`);
    },
  };
}

const OPTIONS = { allErrors: true, strict: false, validateFormats: false, logger: false } as const;

/**
 * The validator of the draft that `$schema` names; draft 2020-12, with `prefixItems`, by default.
 * Throws `invalid` for another draft.
 */
export function ajvOf($schema: unknown): {
  readonly module: string;
  readonly options: typeof OPTIONS;
} {
  const options = OPTIONS;
  const name = typeof $schema === 'string' ? $schema : 'draft/2020-12';
  if (name.includes('draft/2020-12')) return { module: 'ajv/dist/2020.js', options };
  if (name.includes('draft/2019-09')) return { module: 'ajv/dist/2019.js', options };
  if (/draft-0[67]/.test(name)) return { module: 'ajv', options };
  throw new DuolaneError(
    'invalid',
    `unknown $schema "${name}" of the output schema; available: draft 2020-12, 2019-09, draft-07, draft-06`,
  );
}

async function validatorOf($schema: unknown): Promise<Ajv> {
  switch (ajvOf($schema).module) {
    case 'ajv/dist/2020.js':
      return new (await import('ajv/dist/2020.js')).Ajv2020(OPTIONS);
    case 'ajv/dist/2019.js':
      return new (await import('ajv/dist/2019.js')).Ajv2019(OPTIONS);
    default:
      return new (await import('ajv')).Ajv(OPTIONS);
  }
}
