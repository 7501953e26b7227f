import { DuolaneError } from '../../../../errors.ts';
import { asArray, asNumber, asObject, type JsonObject } from '../../../../json.ts';
import { onAbort } from '../../../../stream/abort.ts';
import { Cancellation } from '../../../../stream/cancellation.ts';
import { decodeHeader } from '../../../../wire/encoded-header.ts';
import { isRpcRequest, RPC, rpcError, type RpcRequest } from '../../../../wire/json-rpc.ts';
import { toRpcError } from '../../../../wire/json-rpc-errors.ts';
import type { MessageEndpoint } from '../../../types.ts';
import { VERSION_ERRORS, META, metaOf } from '../../protocol-versions.ts';
import { readClient } from '../../server/stateless-requests.ts';
import { ResumableStream } from './resumable-stream.ts';
import { nameIn } from '../routing-headers.ts';
import type { ParamHeaders } from '../param-headers.ts';
import { jsonOf, quickAnswer, streamOf } from './http-responses.ts';

/** JSON-RPC errors that have their own HTTP status. */
const STATUS: Readonly<Record<number, number>> = {
  [RPC.methodNotFound]: 404,
  [VERSION_ERRORS.headerMismatch]: 400,
  [VERSION_ERRORS.missingCapability]: 400,
  [VERSION_ERRORS.unsupportedVersion]: 400,
};

const DISCONNECTED = new DuolaneError('canceled', 'the client disconnected');

/** What all requests of the stateless protocol share. */
export interface Stateless {
  readonly end: MessageEndpoint;
  readonly params: ParamHeaders;
  readonly owner?: string | undefined;
  /** Called when the message is handled, which may be long after its response has begun. */
  readonly onEnd?: () => void;
}

/** Handles a request of the stateless protocol, which is cancelled when the client disconnects. */
export async function postStateless(
  { end, params, owner, onEnd = () => {} }: Stateless,
  message: JsonObject,
  request: Request,
): Promise<Response> {
  const refused = isRpcRequest(message)
    ? refuseMessage(message, request.headers, params)
    : new Response(null, { status: 202 });
  if (refused || !isRpcRequest(message)) {
    onEnd();
    return refused as Response;
  }
  const { signal } = request;
  const client = new Cancellation();
  const stream = new ResumableStream();
  // A disconnected client reads nothing more, so what the request still sends must not wait.
  const disconnect = (reason: unknown): void => {
    stream.end();
    client.abort(reason);
  };
  const unlisten = onAbort(signal, disconnect);
  const answered = end
    .receive(message, {
      signal: client.signal,
      owner,
      related: (related) => stream.push(related),
    })
    .finally(() => {
      unlisten();
      onEnd();
    });
  const answer = await quickAnswer(answered, stream);
  if (answer === null) return new Response(null, { status: 202 });
  if (answer && message.method === 'tools/list') params.admit(toolsIn(answer));
  if (answer) return jsonOf(answer, STATUS[codeOf(answer)] ?? 200);
  return streamOf(stream.read({ signal, onClose: () => disconnect(DISCONNECTED) }));
}

const codeOf = ({ error }: JsonObject): number => asNumber(asObject(error)['code']) ?? 0;

/**
 * Returns an error response if the headers differ from the body: a proxy may have decided by the
 * headers.
 */
function refuseMessage(
  message: RpcRequest,
  headers: Headers,
  known: ParamHeaders,
): Response | undefined {
  const { id, method, params = {} } = message;
  const mismatch = (header: string): Response =>
    jsonOf(
      rpcError(
        id,
        VERSION_ERRORS.headerMismatch,
        `header mismatch: ${header} differs from the body`,
      ),
      400,
    );
  const version = metaOf(params)[META.version];
  if (typeof version === 'string' && headers.get('mcp-protocol-version') !== version)
    return mismatch('MCP-Protocol-Version');
  try {
    readClient(params);
  } catch (error) {
    return jsonOf(toRpcError(id, error), 400);
  }
  if (headers.get('mcp-method') !== method) return mismatch('Mcp-Method');
  const [name, given] = [nameIn(method, params), headers.get('mcp-name')];
  if (name !== undefined && (given === null || decodeHeader(given) !== decodeHeader(name)))
    return mismatch('Mcp-Name');
  if (method !== 'tools/call') return undefined;
  const param = known.mismatch(params['name'], params['arguments'], headers);
  return param === undefined ? undefined : mismatch(param);
}

const toolsIn = ({ result }: JsonObject): readonly unknown[] => asArray(asObject(result)['tools']);
