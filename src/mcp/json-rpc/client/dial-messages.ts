import { DuolaneError, type ErrorCode } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';
import { onAbort } from '../../../stream/abort.ts';
import type { DialMessagesOptions, MessageTransport, ToolSource } from '../../types.ts';
import { McpClient } from './mcp-client.ts';
import {
  VERSION_ERRORS,
  META,
  PROTOCOL_VERSIONS,
  rpcCodeOf,
  STATELESS_VERSION,
} from '../protocol-versions.ts';
import { withPartial } from '../partial-results.ts';
import { clientSource } from './client-source.ts';

/** How long a server may be silent when it is asked for its protocol; an old one may ignore the question. */
const PROBE_MS = 5_000;

/** Failures that would be the same in the other protocol. */
const FATAL: ReadonlySet<ErrorCode> = new Set([
  'unauthorized',
  'rate_limited',
  'network',
  'peer_exited',
  'closed',
]);

/**
 * The server at the other end of a road for messages, as a ToolSource. Raw JSON: what the server
 * sends beyond what we know is kept. When the road ends, every call and list in flight throws
 * `peer_exited` or `network`. Disposing closes the road. `signal` covers the handshake only.
 */
export async function dialMessages(
  transport: MessageTransport,
  options: DialMessagesOptions = {},
): Promise<ToolSource & AsyncDisposable> {
  const client = new McpClient(transport, options);
  try {
    checkProtocol(options);
    const answer = options.initializeResult ?? (await introduce(client, options, transport));
    return clientSource(client, answer);
  } catch (error) {
    await client[Symbol.asyncDispose]();
    throw error;
  }
}

/** What the values of `protocol` were called before; `era` was the name of the option. */
const RENAMED: Readonly<Record<string, string>> = { legacy: 'session', modern: 'stateless' };

/** Throws `invalid` for an unknown protocol: ignored, it would connect with a default instead. */
function checkProtocol(options: DialMessagesOptions): void {
  if ('era' in options)
    throw new DuolaneError('invalid', 'unknown option "era"; did you mean "protocol"?');
  const { protocol = 'session' } = options;
  if (protocol === 'auto' || protocol === 'session' || protocol === 'stateless') return;
  const renamed = RENAMED[String(protocol)];
  throw new DuolaneError(
    'invalid',
    renamed === undefined
      ? `invalid protocol "${String(protocol)}": expected "auto", "session" or "stateless"`
      : `unknown protocol "${String(protocol)}"; did you mean "${renamed}"?`,
  );
}

async function introduce(
  client: McpClient,
  options: DialMessagesOptions,
  { mayWait = false }: MessageTransport,
): Promise<JsonObject> {
  const { protocol = 'session' } = options;
  if (protocol === 'session') return handshake(client, options);
  if (protocol === 'stateless') return discover(client, options, options.signal);
  const probe = new AbortController();
  const unlisten = onAbort(options.signal, (reason) => probe.abort(reason));
  const timer = mayWait ? undefined : setTimeout(() => probe.abort(silent()), PROBE_MS);
  try {
    return await discover(client, options, probe.signal);
  } catch (error) {
    options.signal?.throwIfAborted();
    const failure = DuolaneError.from(error);
    // A refusal by the protocol's own words is an answer; -32000 of an old server is only `closed` in name.
    const said = rpcCodeOf(failure);
    if (Object.values(VERSION_ERRORS).some((code) => code === said)) throw failure;
    if (said === undefined && FATAL.has(failure.code)) throw failure;
  } finally {
    clearTimeout(timer);
    unlisten();
  }
  client.envelope = undefined;
  return handshake(client, options);
}

async function discover(
  client: McpClient,
  { clientInfo = OURSELVES, capabilities = {} }: DialMessagesOptions,
  signal: AbortSignal | undefined,
): Promise<JsonObject> {
  client.envelope = {
    [META.version]: STATELESS_VERSION,
    [META.client]: clientInfo,
    [META.capabilities]: withPartial(capabilities, 'extensions'),
  };
  const ask = (): Promise<JsonObject> =>
    client.request('server/discover', {}, signal ? { signal } : {});
  // One that refuses our version and names it among its own is being replaced while we ask.
  const answer = await ask().catch((error: unknown) => {
    if (!refusesInVain(error)) throw error;
    return ask();
  });
  const versions = answer['supportedVersions'];
  if (!Array.isArray(versions) || !versions.includes(STATELESS_VERSION)) throw unknown(versions);
  const meta = isObject(answer['_meta']) ? answer['_meta'] : {};
  return { ...answer, serverInfo: meta[META.server] };
}

const OURSELVES = { name: 'duolane', version: '0' };

async function handshake(client: McpClient, options: DialMessagesOptions): Promise<JsonObject> {
  const { clientInfo = OURSELVES, capabilities = {}, signal } = options;
  const answer = await client.request(
    'initialize',
    {
      protocolVersion: PROTOCOL_VERSIONS[0],
      capabilities: withPartial(capabilities, 'experimental'),
      clientInfo,
    },
    signal ? { signal } : {},
  );
  const version = answer['protocolVersion'];
  if (!PROTOCOL_VERSIONS.some((known) => known === version)) throw unknown(version);
  await client.notify('notifications/initialized');
  return answer;
}

function refusesInVain(error: unknown): boolean {
  const { error: said } = ((error as DuolaneError).cause ?? {}) as { error?: JsonObject };
  const { supported } = isObject(said?.['data']) ? said['data'] : {};
  return (
    said?.['code'] === VERSION_ERRORS.unsupportedVersion &&
    Array.isArray(supported) &&
    supported.includes(STATELESS_VERSION)
  );
}

const silent = (): DuolaneError =>
  new DuolaneError('timeout', 'the tool server did not say which protocol it speaks');

const unknown = (version: unknown): DuolaneError =>
  new DuolaneError(
    'unsupported',
    `the server speaks protocol ${JSON.stringify(version)}; we speak ${[STATELESS_VERSION, ...PROTOCOL_VERSIONS].join(', ')}`,
  );
