import type { Ajv } from 'ajv';
import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { type AgentTool, failedOutcome, success } from './types.ts';

export const STRUCTURED_OUTPUT = 'StructuredOutput';
/** After so many answers without a valid output the turn ends with an error. */
export const MAX_FAILURES = 5;
/** Told to a model that answered in prose. */
export const ENFORCE: string = `Call the ${STRUCTURED_OUTPUT} tool now: the answer to this request must be given through it.`;

/** What is wrong with a value, by its schema, or undefined. */
export type SchemaCheck = (value: unknown) => string | undefined;

/** Throws `invalid` for a schema that cannot be used. */
export async function compileOutputSchema(schema: JsonObject): Promise<SchemaCheck> {
  const { $schema, ...plain } = schema; // ajv refuses a dialect that it does not know by this name
  const ajv = await validatorOf($schema);
  let validate: ReturnType<typeof ajv.compile>;
  try {
    validate = ajv.compile(plain);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new DuolaneError('invalid', `the JSON schema cannot be used: ${why}`, { cause });
  }
  return (value) =>
    validate(value)
      ? undefined
      : (validate.errors ?? [])
          .map(({ instancePath, message }) => `${instancePath || 'root'}: ${message ?? 'invalid'}`)
          .join(', ');
}

/** The tool through which a model gives its answer in a schema. Throws `invalid` if that cannot be used. */
export async function structuredTool(schema: JsonObject): Promise<AgentTool> {
  const check = await compileOutputSchema(schema);
  return {
    spec: {
      name: STRUCTURED_OUTPUT,
      description:
        'Gives the final answer, in the form that was asked for. Call it once, at the end.',
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

/** By default draft 2020-12, where a tuple has `prefixItems`; an older dialect if the schema says so. */
async function validatorOf($schema: unknown): Promise<Ajv> {
  const options = { allErrors: true, strict: false, validateFormats: false } as const;
  const name = typeof $schema === 'string' ? $schema : 'draft/2020-12';
  if (name.includes('draft/2020-12'))
    return new (await import('ajv/dist/2020.js')).Ajv2020(options);
  if (name.includes('draft/2019-09'))
    return new (await import('ajv/dist/2019.js')).Ajv2019(options);
  if (/draft-0[67]/.test(name)) return new (await import('ajv')).Ajv(options);
  throw new DuolaneError(
    'invalid',
    `unknown $schema "${name}" of the output; available: draft 2020-12, 2019-09, draft-07, draft-06`,
  );
}
