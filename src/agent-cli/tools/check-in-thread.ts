import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
import { ajvOf, compileOutputSchema } from './structured-output.ts';
import type { AgentTool } from './types.ts';

/** How long the check of one input may take. */
const LIMIT_MS = 5_000;

/**
 * The program of the thread. It is a string, so that it needs no file and works from source and
 * from the built package. It gets the path of the validator: a `require` by name would search the
 * working directory.
 */
const THREAD = `
const { parentPort, workerData: { path, options, schema, input } } = require('node:worker_threads');
const validate = new (require(path).default)(options).compile(schema);
if (validate.$async) throw new Error('the schema is asynchronous');
const problems = validate(input)
  ? undefined
  : validate.errors
      .slice(0, 20)
      .map(({ instancePath, message }) => (instancePath || 'root') + ': ' + (message || 'invalid'))
      .join(', ');
parentPort.postMessage(problems);
`;

/**
 * Checks an input against a schema of a tool server; returns the problems, or undefined for a valid
 * input. The server writes the schema: a pattern that backtracks would block this process,
 * including the handling of a cancel. So it runs on a separate thread, with a limit of time and
 * memory. Throws `invalid` for an invalid schema, `timeout`, and the reason of the signal.
 */
export async function checkInThread(
  schema: JsonObject,
  input: JsonObject,
  signal: AbortSignal,
  limitMs: number = LIMIT_MS,
): Promise<string | undefined> {
  signal.throwIfAborted();
  const { $schema, ...rest } = schema;
  const { module, options } = ajvOf($schema);
  const path = createRequire(import.meta.url).resolve(module);
  const worker = new Worker(THREAD, {
    eval: true,
    workerData: { path, options, schema: rest, input },
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 128 },
  });
  const limit = AbortSignal.timeout(limitMs);
  let unlisten: readonly (() => void)[] = [];
  try {
    return await new Promise<string | undefined>((resolve, reject) => {
      worker.once('message', resolve);
      worker.once('error', (cause) =>
        reject(new DuolaneError('invalid', `invalid schema: ${cause.message}`, { cause })),
      );
      unlisten = [
        onAbort(signal, reject),
        onAbort(limit, () =>
          reject(new DuolaneError('timeout', `the check timed out after ${limitMs} ms`)),
        ),
      ];
    });
  } finally {
    for (const stop of unlisten) stop();
    await worker.terminate();
  }
}

/**
 * The problems of a changed input of a tool; undefined: it is valid. With an invalid schema, no
 * input is valid. Throws only the reason of the signal.
 */
export async function inputProblem(
  { spec, server }: AgentTool,
  input: JsonObject,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    if (server) return await checkInThread(spec.input_schema, input, signal);
    return (await compileOutputSchema(spec.input_schema))(input);
  } catch (reason) {
    signal.throwIfAborted();
    return DuolaneError.from(reason).message;
  }
}
