import { createSdkMcpServer, type SessionOptions, tool } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { type ModelReply, type ModelScript, startModelServer } from '../support/model-server.ts';
import { findRealCli, REAL_CLIS, realCli, type RealCliName } from '../support/real-cli.ts';
import { suite } from '../verifies.ts';

export const ANY = { type: 'object', properties: { n: { type: 'number' } } } as const;
const READ_ONLY = { annotations: { readOnlyHint: true } };

/** A reply of the model with one tool call. */
export const call = (name: string, input: JsonObject = {}, id?: string): ModelReply => ({
  tools: [{ name, input, ...(id !== undefined && { id }) }],
});

export const results = (messages: readonly JsonObject[]): readonly JsonObject[] =>
  messages.filter(({ type }) => type === 'result');

/** A server with two tools that share one handler: `run`, and `look`, which is read-only. */
export const calc = (
  handler: (args: JsonObject) => unknown,
): NonNullable<SessionOptions['mcpServers']> => ({
  calc: createSdkMcpServer({
    name: 'calc',
    tools: [
      tool('run', 'Runs', ANY, handler as () => string),
      tool('look', 'Looks', ANY, handler as () => string, READ_ONLY),
    ],
  }),
});

/** Options for a real CLI in a separate environment, and the requests to its scripted model. */
export interface Placed extends AsyncDisposable {
  readonly options: SessionOptions;
  readonly calls: readonly { readonly body: JsonObject }[];
}

export type Placing = (
  script: ModelScript,
  more?: SessionOptions,
  env?: Readonly<Record<string, string>>,
) => Promise<Placed>;

/**
 * Defines the same tests for every real CLI; those that are not available are skipped with a
 * reason.
 */
export async function eachRealCli(theme: string, define: (placed: Placing) => void): Promise<void> {
  for (const name of Object.keys(REAL_CLIS) as RealCliName[]) {
    const { command, missing } = await findRealCli(name);
    suite(`host with ${name}, ${theme}`, missing, () => define(placing(command)));
  }
}

const placing =
  (command: string): Placing =>
  async (script, more = {}, env = {}) => {
    const model = await startModelServer(script);
    const place = realCli({ command, modelUrl: model.url, env });
    return {
      calls: model.calls,
      options: {
        pathToClaudeCodeExecutable: command,
        cwd: place.cwd,
        env: place.env,
        model: 'scripted',
        permissionMode: 'default',
        settingSources: [],
        tools: [],
        ...more,
      },
      async [Symbol.asyncDispose]() {
        await model[Symbol.asyncDispose]();
        await place[Symbol.asyncDispose]();
      },
    };
  };
