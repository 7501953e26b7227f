import { DuolaneError } from '../../../errors.ts';
import type { DialMessagesOptions, MessageTransport, ToolSource } from '../../../mcp/types.ts';
import { asObject, asString, asStrings, type JsonObject } from '../../../json.ts';

/** What every connection needs: where servers are started, and a handler for their requests. */
export interface DialHelp {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Whether the server may use the model of the session. */
  maySample(name: string): boolean;
  /**
   * Handles `elicitation/create`, `sampling/createMessage` and `roots/list` of the server `name`.
   */
  onRequest(
    name: string,
    method: string,
    params: JsonObject,
    signal: AbortSignal,
  ): Promise<JsonObject>;
}

/** `onRequest` handles all of these, also for servers inside the host. */
const CAPABILITIES = { elicitation: { form: {}, url: {} }, roots: {} };

const options = (name: string, help: DialHelp, signal: AbortSignal): DialMessagesOptions => ({
  signal,
  // The session has time limits of its own for each server.
  timeoutMs: Infinity,
  maxTotalMs: Infinity,
  clientInfo: help.clientInfo,
  capabilities: { ...CAPABILITIES, ...(help.maySample(name) && { sampling: {} }) },
  onRequest: (method, params, { signal: own }) =>
    help.onRequest(name, method, params, own ?? signal),
});

/** Connects to a server inside the host, over the control lane. */
export async function dialHost(
  name: string,
  transport: MessageTransport,
  help: DialHelp,
  signal: AbortSignal,
): Promise<ToolSource & AsyncDisposable> {
  const { dialMessages } = await import('../../../mcp/json-rpc/client/dial-messages.ts');
  return dialMessages(transport, options(name, help, signal));
}

/** Connects to a server of `--mcp-config`: starts its command or calls its URL. */
export async function dialConfig(
  name: string,
  config: JsonObject,
  help: DialHelp,
  signal: AbortSignal,
): Promise<ToolSource & AsyncDisposable> {
  const type = asString(config['type'], 'stdio');
  if (type === 'http' || type === 'sse') return dialUrl(name, type, config, help, signal);
  if (type !== 'stdio')
    throw new DuolaneError(
      'unsupported',
      `unknown server type "${type}"; available: stdio, http, sse`,
    );
  const command = asString(config['command']);
  if (command === '')
    throw new DuolaneError('invalid', `MCP server "${name}" has no command: expected a program`);
  const [{ dialTransport }, { buildEnv, spawnProcess }] = await Promise.all([
    import('../../../mcp/json-rpc/stdio.ts'),
    import('../../../process/index.ts'),
  ]);
  const transport = spawnProcess({
    command,
    args: asStrings(config['args']),
    cwd: asString(config['cwd'], help.cwd),
    env: buildEnv({ base: help.env, set: asObject(config['env']) as Record<string, string> }),
  });
  return dialTransport(transport, options(name, help, signal));
}

async function dialUrl(
  name: string,
  type: 'http' | 'sse',
  config: JsonObject,
  help: DialHelp,
  signal: AbortSignal,
): Promise<ToolSource & AsyncDisposable> {
  const url = asString(config['url']);
  if (!URL.canParse(url))
    throw new DuolaneError(
      'invalid',
      `invalid url "${url}" of MCP server "${name}": expected a URL`,
    );
  const { dialHttp, dialSse } = await import('../../../mcp/json-rpc/http/client/dial-http.ts');
  const headers = Object.fromEntries(
    Object.entries(asObject(config['headers'])).filter(
      (header): header is [string, string] => typeof header[1] === 'string',
    ),
  );
  const dial = type === 'http' ? dialHttp : dialSse;
  return dial({ url, headers, ...options(name, help, signal) });
}
