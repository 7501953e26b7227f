import { asObject, type JsonObject } from '../../../src/json.ts';
import { startModelServer } from '../../support/model-server.ts';
import { realCli } from '../../support/real-cli.ts';
import type { Case, Sdk } from './run-case.ts';

/** The first request of the real CLI to its model, and how the run ended. */
export interface RealRun {
  readonly body: JsonObject | undefined;
  readonly messages: readonly string[];
}

/** Runs a case with one SDK against the real CLI and a scripted model on loopback. */
export async function realRequest(sdk: Sdk, given: Case, command: string): Promise<RealRun> {
  await using model = await startModelServer(() => ({ text: 'hello' }));
  await using place = realCli({ command, modelUrl: model.url });
  const own = given.options?.(sdk, []) ?? {};
  const options = {
    pathToClaudeCodeExecutable: command,
    cwd: place.cwd,
    model: 'scripted',
    permissionMode: 'default',
    ...own,
    env: { ...place.env, ...asObject(own['env']) },
  };
  const messages: string[] = [];
  try {
    for await (const { type, subtype } of sdk.query({ prompt: 'Say hello', options }))
      if (type === 'assistant' || type === 'result') messages.push(`${type}/${String(subtype)}`);
  } catch (error) {
    // Each SDK words its errors in its own way; that there is one must be the same.
    messages.push(error instanceof Error ? 'error' : 'thrown');
  }
  const body = model.calls[0]?.body;
  return {
    body: body && (JSON.parse(stable(JSON.stringify(body), place.cwd)) as JsonObject),
    messages,
  };
}

/** The text without what differs from run to run: folders and ids. */
const stable = (text: string, cwd: string): string =>
  text
    .replaceAll(cwd.slice(0, cwd.lastIndexOf('/')), '<home>')
    .replaceAll(cwd.slice(0, cwd.lastIndexOf('/')).replace(/[^a-zA-Z0-9]/g, '-'), '<home>')
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<uuid>')
    // The CLI gives a plan a random name.
    .replace(/plans\/[\w-]+\.md/g, 'plans/<name>.md')
    .replace(/\b[0-9a-f]{64}\b/g, '<hash>')
    .replace(/cch=[0-9a-f]+/g, 'cch=<hash>');
