import { asObject, asString, isObject, type JsonObject } from '../../json.ts';
import { rpcError, type RpcId } from '../../wire/json-rpc.ts';
import { disconnectSignal } from '../../http/node-request.ts';
import { sseResponse } from '../../http/sse-response.ts';
import { jsonResponse, textResponse } from '../../http/text-response.ts';
import { toHttpResponse, errorItem, headersOf, type Envelope } from './http-response.ts';
import {
  isStream,
  toA2AError,
  type OperationCall,
  type ServerContext,
} from './dispatch-operation.ts';
import { DIALECT_03, RPC_DIALECTS } from '../v0.3/json-rpc-dialect.ts';
import { DIALECT_10, type Dialect, type Operation } from '../protocol/dialect.ts';
import { METHOD_NAMES } from '../protocol/method-names.ts';
import { REASONS, A2AError } from '../protocol/a2a-errors.ts';
import { headerFields, readCallFields, readJsonRequest, readVersion } from './read-request.ts';
import type { Caller } from './task-operations.ts';
import { once } from './task-stream.ts';

const BY_NAME = new Map(
  Object.values(RPC_DIALECTS).flatMap((dialect) =>
    Object.entries(METHOD_NAMES[dialect.version]).map(
      ([operation, name]) => [name, { operation: operation as Operation, dialect }] as const,
    ),
  ),
);

/** What a response needs to know about its request. */
interface RpcHead {
  id: RpcId | null;
  dialect: Dialect;
  streams: boolean;
}

/** Handles a JSON-RPC request. The header decides the version, or else the name of the method. */
export async function serveJsonRpc(
  request: Request,
  caller: Caller,
  server: ServerContext,
): Promise<Response> {
  const head: RpcHead = { id: null, dialect: DIALECT_10, streams: false };
  try {
    const call = await readOperation(request, caller, server, head);
    return await toHttpResponse(call, server, envelope(head.id, head.dialect));
  } catch (error) {
    const { id, dialect, streams } = head;
    const failure = toA2AError(error, server.onError);
    return streams && dialect.streamsErrors
      ? sseResponse(once(errorItem(failure, envelope(id, dialect))))
      : jsonResponse(errorBody(id, failure, dialect), { headers: headersOf(failure) });
  }
}

/**
 * Reads a request, and sets what is known of it in `head`, also if it fails. A function of its own:
 * the operation may wait long, and the frame of this function would keep the body in memory.
 */
async function readOperation(
  request: Request,
  caller: Caller,
  server: ServerContext,
  head: RpcHead,
): Promise<OperationCall> {
  const body = await readJsonRequest(request, server.maxBodyBytes).catch((error: unknown) => {
    if (readVersion(request) !== '1.0') head.dialect = DIALECT_03;
    throw error;
  });
  const call = readCall(body);
  head.id = call.id;
  const requested = readVersion(request);
  if (requested !== '1.0') head.dialect = DIALECT_03;
  if (call.problem) throw call.problem;
  const method = BY_NAME.get(call.method);
  if (!method || (requested !== undefined && requested !== method.dialect.version))
    throw new A2AError(
      'METHOD_NOT_FOUND',
      `unknown method "${call.method}"${requested ? ` of A2A ${requested}` : ''}`,
    );
  const { operation, dialect } = method;
  head.dialect = dialect;
  head.streams = isStream(operation);
  const { params } = call;
  return {
    operation,
    dialect,
    params,
    caller,
    ...readCallFields(headerFields(request), params),
    disconnect: disconnectSignal(request),
  };
}

function envelope(id: RpcId | null, dialect: Dialect): Envelope {
  const head = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`;
  const wrap = (value: unknown): string => `${head}${JSON.stringify(value)}}`;
  return {
    result: (value) => textResponse(wrap(value), 200, { 'content-type': 'application/json' }),
    event: wrap,
    error: (error) => JSON.stringify(errorBody(id, error, dialect)),
  };
}

const errorBody = (id: RpcId | null, error: A2AError, dialect: Dialect): JsonObject =>
  rpcError(id, REASONS[error.reason].rpc, error.message, dialect.errorData(error));

const MAX_ID_CHARS = 1024;

/** A JSON-RPC request. */
interface RpcCall {
  readonly id: RpcId | null;
  readonly method: string;
  readonly params: JsonObject;
  /** Why the request is invalid. Kept beside the id, so that the error response carries that id. */
  readonly problem: A2AError | undefined;
}

function readCall(body: unknown): RpcCall {
  const request = asObject(body);
  const { id, method, params } = request;
  // A longer id would be kept in memory as long as the operation takes.
  const isShort = typeof id === 'string' && id.length <= MAX_ID_CHARS;
  const known = isShort || typeof id === 'number' ? id : null;
  const findProblem = (): A2AError | undefined => {
    if (request['jsonrpc'] !== '2.0' || typeof method !== 'string')
      return new A2AError('INVALID_REQUEST', 'invalid request: expected one JSON-RPC 2.0 object');
    // A request without an id would be a notification. A2A has none, so the response has the id
    // null.
    if (id !== null && id !== undefined && known === null)
      return new A2AError(
        'INVALID_REQUEST',
        `invalid id: expected a string of at most ${MAX_ID_CHARS} characters, a number or null`,
      );
    if (params !== undefined && !isObject(params))
      return new A2AError('INVALID_PARAMS', 'invalid params: expected an object');
    return undefined;
  };
  const problem = findProblem();
  return { id: known, method: asString(method), params: asObject(params), problem };
}
