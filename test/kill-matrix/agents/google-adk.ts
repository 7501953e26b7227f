import { type AdkRunner, googleAdk } from '../../../src/adapters/google-adk/google-adk-agent.ts';
import type { JsonObject } from '../../../src/json.ts';
import { peer } from '../../peers.ts';
import { checkKey } from '../cli-tools.ts';
import type { MatrixAgent } from '../matrix-agent.ts';

// An agent of Google ADK with durable steps.

interface Lib {
  readonly LlmAgent: new (options: JsonObject) => unknown;
  readonly InMemoryRunner: new (options: JsonObject) => AdkRunner;
  readonly FunctionTool: new (options: JsonObject) => unknown;
  readonly Gemini: new (options: JsonObject) => unknown;
  readonly setLogLevel: (level: number) => void;
  readonly LogLevel: { readonly ERROR: number };
}
interface Context {
  readonly abortSignal?: AbortSignal;
  readonly functionCallId?: string;
}

const sdk = await peer('google-adk');

/** ADK expects the types of a schema in upper case. */
const parameters = {
  type: 'OBJECT',
  properties: { a: { type: 'NUMBER' }, id: { type: 'STRING' } },
  required: ['a', 'id'],
};

const agent: MatrixAgent = {
  ...(sdk.reason !== undefined && { missing: sdk.reason }),
  build: async ({ url, tools }) => {
    // The base URL of the client of Gemini can only be set here.
    process.env['GOOGLE_GEMINI_BASE_URL'] = url;
    const lib = (await sdk.import('@google/adk')) as unknown as Lib;
    lib.setLogLevel(lib.LogLevel.ERROR);
    const scene = new lib.LlmAgent({
      name: 'scene',
      model: new lib.Gemini({ model: 'gemini-scripted', apiKey: 'dummy' }),
      instruction: 'Answer.',
      tools: tools.map(
        ({ name, description, approval = false, run }) =>
          new lib.FunctionTool({
            name,
            description,
            parameters,
            requireConfirmation: approval,
            execute: (args: JsonObject, context?: Context) => {
              checkKey(args, context?.functionCallId);
              return run(args, context?.abortSignal);
            },
          }),
      ),
    });
    return googleAdk(new lib.InMemoryRunner({ agent: scene, appName: 'scene' }));
  },
};

export default agent;
