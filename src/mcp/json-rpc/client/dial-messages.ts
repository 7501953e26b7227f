import { DuolaneError, type ErrorCode, invalid, unsupported } from '../../../errors.ts';
import { asArray, asObject, type JsonObject } from '../../../json.ts';
import { onAbort } from '../../../stream/abort.ts';
import type { DialMessagesOptions, MessageTransport, ToolSource } from '../../types.ts';
import { checkLimits } from '../../sources/request-timer.ts';
import { McpClient } from './mcp-client.ts';
import {
  VERSION_ERRORS,
  META,
  metaOf,
  PROTOCOL_VERSIONS,
  rpcCodeOf,
  STATELESS_VERSION,
} from '../protocol-versions.ts';
import { withPartial } from '../partial-results.ts';
import { clientSource } from './client-source.ts';

/**
 * How long `auto` waits for a server without `mayWait`: an old server may ignore the unknown
 * request.
 */
const PROBE_MS = 5_000;

/** Failures that the other protocol would have, too. */
const FATAL: ReadonlySet<ErrorCode> = new Set([
  'unauthorized',
  'rate_limited',
  'network',
  'peer_exited',
  'closed',
]);

/**
 * Connects to the server at the peer of a transport. JSON is not converted: unknown members of the
 * server are kept. When the transport ends, every call and list in flight throws `peer_exited` or
 * `network`. Disposing closes the transport. `signal` covers the handshake only.
 */
export async function dialMessages(
  transport: MessageTransport,
  options: DialMessagesOptions = {},
): Promise<ToolSource & AsyncDisposable> {
  const client = new McpClient(transport, options);
  try {
    checkProtocol(options);
    checkLimits(options);
    const answer = options.initializeResult ?? (await introduce(client, options, transport));
    return clientSource(client, answer);
  } catch (error) {
    await client[Symbol.asyncDispose]();
    throw error;
  }
}

/** The former name of the option `protocol`. */
const FORMER_NAME = 'era';

/** The former values of `protocol`. */
const RENAMED: Readonly<Record<string, string>> = { legacy: 'session', modern: 'stateless' };

/**
 * Throws `invalid` for an unknown protocol; if it were ignored, the client would use the default.
 */
function checkProtocol(options: DialMessagesOptions): void {
  if (FORMER_NAME in options)
    throw invalid(`unknown option "${FORMER_NAME}"; did you mean "protocol"?`);
  const { protocol = 'session' } = options;
  if (protocol === 'auto' || protocol === 'session' || protocol === 'stateless') return;
  const renamed = RENAMED[String(protocol)];
  throw invalid(
    renamed === undefined
      ? `invalid protocol "${String(protocol)}": expected "auto", "session" or "stateless"`
      : `unknown protocol "${String(protocol)}"; did you mean "${renamed}"?`,
  );
}

/** Opens the connection with the chosen protocol. `auto` tries the stateless protocol first. */
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
    // An error code of the stateless protocol is a valid response. The -32000 of an old server also
    // maps to `closed`, but does not mean it.
    const rpcCode = rpcCodeOf(failure);
    if (Object.values(VERSION_ERRORS).some((code) => code === rpcCode)) throw failure;
    if (rpcCode === undefined && FATAL.has(failure.code)) throw failure;
  } finally {
    clearTimeout(timer);
    unlisten();
  }
  client.envelope = undefined;
  return handshake(client, options);
}

/** Opens the stateless protocol: requests the server information, once. */
async function discover(
  client: McpClient,
  { clientInfo = CLIENT_INFO, capabilities = {} }: DialMessagesOptions,
  signal: AbortSignal | undefined,
): Promise<JsonObject> {
  client.envelope = {
    [META.version]: STATELESS_VERSION,
    [META.client]: clientInfo,
    [META.capabilities]: withPartial(capabilities, 'extensions'),
  };
  const ask = (): Promise<JsonObject> =>
    client.request('server/discover', {}, signal ? { signal } : {});
  // A server that refuses our version, but lists it as supported, is being updated right now.
  const answer = await ask().catch((error: unknown) => {
    if (!isContradictory(error)) throw error;
    return ask();
  });
  const versions = answer['supportedVersions'];
  if (!asArray(versions).includes(STATELESS_VERSION)) throw unknown(versions);
  return { ...answer, serverInfo: metaOf(answer)[META.server] };
}

const CLIENT_INFO = { name: 'duolane', version: '0' };

/** Opens the session protocol with `initialize`. */
async function handshake(client: McpClient, options: DialMessagesOptions): Promise<JsonObject> {
  const { clientInfo = CLIENT_INFO, capabilities = {}, signal } = options;
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

/** Whether a server refuses our version and lists it as supported in the same response. */
function isContradictory(error: unknown): boolean {
  const { code, data } = asObject(asObject((error as DuolaneError).cause)['error']);
  return (
    code === VERSION_ERRORS.unsupportedVersion &&
    asArray(asObject(data)['supported']).includes(STATELESS_VERSION)
  );
}

const silent = (): DuolaneError =>
  new DuolaneError(
    'timeout',
    `server/discover timed out after ${PROBE_MS} ms: no response of the tool server`,
  );

const unknown = (version: unknown): DuolaneError =>
  unsupported(
    `the server sent protocol version ${JSON.stringify(version)}: expected one of ${[STATELESS_VERSION, ...PROTOCOL_VERSIONS].join(', ')}`,
  );
