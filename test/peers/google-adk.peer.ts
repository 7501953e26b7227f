import { afterAll } from 'vitest';
import { googleAdk, type AdkRunner } from '../../src/adapters/google-adk/index.ts';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { adapterContract, type Scene } from '../adapters/adapter.contract.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';

const sdk = await peer('google-adk');
afterAll(() => void delete process.env['GOOGLE_GEMINI_BASE_URL']);

/** What the tests use of ADK. */
interface Lib {
  readonly LlmAgent: new (options: JsonObject) => unknown;
  readonly InMemoryRunner: new (options: JsonObject) => AdkRunner;
  readonly FunctionTool: new (options: JsonObject) => unknown;
  readonly Gemini: new (options: JsonObject) => unknown;
  readonly setLogLevel: (level: number) => void;
  readonly LogLevel: { readonly ERROR: number };
}

/** ADK knows the types of a schema in capitals. */
const schemaOf = ({ type, properties, required }: JsonObject): JsonObject => ({
  type: String(type).toUpperCase(),
  ...(typeof properties === 'object' && {
    properties: Object.fromEntries(
      Object.entries(properties as JsonObject).map(([name, value]) => [
        name,
        schemaOf(value as JsonObject),
      ]),
    ),
  }),
  ...(Array.isArray(required) && { required: required as readonly string[] }),
});

async function build({ url, tools, output }: Scene): Promise<Agent> {
  // The base URL of the client of Gemini can only be set here.
  process.env['GOOGLE_GEMINI_BASE_URL'] = url;
  const lib = (await sdk.import('@google/adk')) as unknown as Lib;
  lib.setLogLevel(lib.LogLevel.ERROR);
  const agent = new lib.LlmAgent({
    name: 'scene',
    model: new lib.Gemini({ model: 'gemini-scripted', apiKey: 'dummy' }),
    instruction: 'Answer.',
    tools: tools.map(
      ({ name, description, schema, approval = false, run }) =>
        new lib.FunctionTool({
          name,
          description,
          parameters: schemaOf(schema),
          requireConfirmation: approval,
          execute: (args: JsonObject, context?: { readonly abortSignal?: AbortSignal }) =>
            run(args, context?.abortSignal),
        }),
    ),
    ...(output && { outputSchema: schemaOf(output) }),
  });
  return googleAdk(new lib.InMemoryRunner({ agent, appName: 'scene' }));
}

suite('google-adk', sdk.reason, () => {
  adapterContract('Google ADK', {
    build,
    gaps: { arguments: 'it gives a call whole' },
  });
});
