import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { asObject, isObject, type JsonObject } from '../../../src/json.ts';

/** The functions that a case needs of either SDK. */
export interface Sdk {
  readonly name: 'official' | 'ours';
  readonly query: (input: { prompt: unknown; options: JsonObject }) => SdkRun;
  readonly createSdkMcpServer: (options: JsonObject) => JsonObject;
  readonly tool: (...args: unknown[]) => unknown;
  readonly InMemorySessionStore: new () => object;
  readonly AbortError: new () => Error;
}

export type SdkRun = AsyncIterable<JsonObject> & { close(): void } & Readonly<
    Record<string, (...args: unknown[]) => unknown>
  >;

/** What the CLI saw of one run, and what the program got. */
export interface Recording {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly initialize: JsonObject;
  /** The control requests after `initialize`, without their ids. */
  readonly requests: readonly JsonObject[];
  readonly users: readonly JsonObject[];
  /** The responses of the host, by request id. */
  readonly responses: JsonObject;
  /** Types of the messages that the program got. */
  readonly messages: readonly string[];
  /** What the callbacks of the case got, and what its methods returned. */
  readonly seen: readonly unknown[];
  readonly error?: JsonObject;
  readonly started: boolean;
}

/** One program: its options, its prompt, and what it does while it runs. */
export interface Case {
  readonly name: string;
  readonly options?: (sdk: Sdk, seen: unknown[]) => JsonObject;
  readonly prompt?: unknown;
  /** Control requests of the CLI to the host. */
  readonly requests?: readonly JsonObject[];
  readonly end?: 'success' | 'error' | 'exit' | 'hang';
  /** Called before the prompt is sent; its result is kept. */
  readonly method?: (run: SdkRun, sdk: Sdk) => unknown;
  /** The control request that the CLI answers with an error. */
  readonly refuse?: string;
  /** The response of the CLI to each control request but `initialize`. */
  readonly response?: JsonObject;
}

const CLI = fileURLToPath(new URL('recording-cli.mjs', import.meta.url));

/** Runs a case with one SDK against the recording CLI. */
export async function runCase(sdk: Sdk, given: Case): Promise<Recording> {
  const folder = mkdtempSync(join(tmpdir(), 'duolane-compare-'));
  const file = join(folder, 'record.jsonl');
  const seen: unknown[] = [];
  const messages: string[] = [];
  let failure: JsonObject | undefined;
  try {
    const own = given.options?.(sdk, seen) ?? {};
    const env = {
      PATH: process.env['PATH'] ?? '',
      HOME: folder,
      ANTHROPIC_API_KEY: 'dummy',
      RECORD_FILE: file,
      RECORD_REQUESTS: JSON.stringify(given.requests ?? []),
      RECORD_END: given.end ?? 'success',
      RECORD_REFUSE: given.refuse ?? '',
      RECORD_RESPONSE: given.response && JSON.stringify(given.response),
      ...asObject(own['env']),
    };
    const options = { pathToClaudeCodeExecutable: CLI, cwd: folder, ...own, env };
    let go = (): void => {};
    const called = new Promise<void>((resolve) => (go = resolve));
    const prompt = given.method ? promptAfter(called) : (given.prompt ?? 'hi');
    const run = sdk.query({ prompt, options });
    const limit = setTimeout(() => (seen.push('it took too long'), run.close()), 20_000);
    if (given.method) {
      seen.push(await outcome(async () => given.method?.(run, sdk)));
      go();
    }
    for await (const message of run) {
      messages.push([message['type'], message['subtype']].filter(Boolean).join('/'));
    }
    clearTimeout(limit);
  } catch (error) {
    failure = describe(error, sdk);
  }
  const lines = linesOf(file).map((line) => replaced(line, folder));
  rmSync(folder, { recursive: true, force: true });
  return {
    ...recordingOf(lines),
    messages,
    seen,
    ...(failure !== undefined && { error: failure }),
  };
}

async function* promptAfter(called: Promise<void>): AsyncGenerator<JsonObject, void, undefined> {
  await called;
  yield {
    type: 'user',
    session_id: '',
    parent_tool_use_id: null,
    message: { role: 'user', content: 'hi' },
  };
}

async function outcome(call: () => Promise<unknown>): Promise<unknown> {
  try {
    const value: unknown = await call();
    return { returned: value ?? null };
  } catch (error) {
    // The text is of each SDK; the code is that of the CLI.
    return { failed: true, errorCode: (error as { errorCode?: unknown }).errorCode ?? null };
  }
}

/** The class of an error, its exit code, and its text, which each SDK words in its own way. */
function describe(error: unknown, { AbortError }: Sdk): JsonObject {
  const { exitCode, message } = asObject(error);
  return {
    isAbort: error instanceof AbortError,
    exitCode: exitCode ?? null,
    // Only what the CLI said is the same.
    reason: /error result: (.*)$/.exec(String(message))?.[1] ?? null,
  };
}

const linesOf = (file: string): string[] => {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean);
  } catch {
    return []; // the CLI was never started
  }
};

const replaced = (line: string, folder: string): JsonObject =>
  JSON.parse(line.replaceAll(folder, '<folder>')) as JsonObject;

function recordingOf(lines: readonly JsonObject[]): Omit<Recording, 'messages' | 'seen'> {
  const [start = {}, ...rest] = lines;
  const frames = rest.map(({ line }) => line).filter(isObject);
  const requests = frames
    .filter(({ type }) => type === 'control_request')
    .map(({ request }) => asObject(request));
  return {
    started: lines.length > 0,
    argv: (start['argv'] ?? []) as string[],
    env: (start['env'] ?? {}) as Record<string, string>,
    initialize: requests.find(({ subtype }) => subtype === 'initialize') ?? {},
    requests: requests.filter(({ subtype }, index) => subtype !== 'initialize' || index > 0),
    users: frames.filter(({ type }) => type === 'user'),
    responses: Object.fromEntries(
      frames
        .filter(({ type }) => type === 'control_response')
        .map(({ response }) => {
          const { request_id, ...outcome } = asObject(response);
          return [String(request_id), outcome];
        }),
    ),
  };
}
