import { isObject, type JsonObject } from '../../json.ts';
import { rpcError, type RpcId } from '../../wire/json-rpc.ts';
import { disconnectSignal } from '../../http/node-request.ts';
import { sseResponse } from '../../http/sse-response.ts';
import { textResponse } from '../../http/text-response.ts';
import { toHttpResponse, errorItem, headersOf, type Envelope } from './http-response.ts';
import { isStream, toA2AError, type ServerContext } from './begin-call.ts';
import { DIALECT_03 } from '../v0.3/json-rpc-dialect.ts';
import { DIALECT_10, type Dialect, type Operation } from '../protocol/dialect.ts';
import { METHOD_NAMES } from '../protocol/method-names.ts';
import { REASONS, A2AError } from '../protocol/a2a-errors.ts';
import {
  headerFields,
  readExtensions,
  readJsonRequest,
  readLastEventId,
  readVersion,
} from './read-request.ts';
import type { Caller } from './task-operations.ts';

const BY_NAME = new Map(
  [DIALECT_10, DIALECT_03].flatMap((dialect) =>
    Object.entries(METHOD_NAMES[dialect.version]).map(
      ([operation, name]) => [name, { operation: operation as Operation, dialect }] as const,
    ),
  ),
);

/** The JSON-RPC binding of both versions on one URL: the header chooses, else the method's name. */
export async function serveJsonRpc(
  request: Request,
  caller: Caller,
  binding: ServerContext,
): Promise<Response> {
  let id: RpcId | null = null;
  let dialect: Dialect = DIALECT_10;
  let streams = false;
  try {
    const body = await readJsonRequest(request, binding.maxBodyBytes).catch((error: unknown) => {
      if (readVersion(request) !== '1.0') dialect = DIALECT_03;
      throw error;
    });
    const call = readCall(body);
    id = call.id;
    const asked = readVersion(request);
    if (asked !== '1.0') dialect = DIALECT_03;
    if (call.problem) throw call.problem;
    const method = BY_NAME.get(call.method);
    if (!method || (asked !== undefined && asked !== method.dialect.version))
      throw new A2AError(
        'METHOD_NOT_FOUND',
        `there is no method ${call.method}${asked ? ` in A2A ${asked}` : ''}`,
      );
    dialect = method.dialect;
    streams = isStream(method.operation);
    const { params } = call;
    const fields = headerFields(request);
    return await toHttpResponse(
      {
        operation: method.operation,
        dialect,
        params,
        caller,
        lastEventId: readLastEventId(fields, params),
        extensions: readExtensions(fields),
        leaving: disconnectSignal(request),
      },
      binding,
      envelope(id, dialect),
    );
  } catch (error) {
    const refusal = toA2AError(error, binding.onError);
    // Clients of 0.3 read the answer to a streaming method as a stream, also when it is a refusal.
    return streams && dialect.version === '0.3'
      ? sseResponse(one(errorItem(refusal, envelope(id, dialect))))
      : Response.json(failure(id, refusal, dialect), { headers: headersOf(refusal) });
  }
}

async function* one<T>(item: T): AsyncGenerator<T, void, undefined> {
  yield item;
}

function envelope(id: RpcId | null, dialect: Dialect): Envelope {
  const head = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`;
  const wrap = (value: unknown): string => `${head}${JSON.stringify(value)}}`;
  return {
    result: (value) => textResponse(wrap(value), 200, { 'content-type': 'application/json' }),
    event: wrap,
    error: (refusal) => JSON.stringify(failure(id, refusal, dialect)),
  };
}

function failure(id: RpcId | null, refusal: A2AError, { version }: Dialect): JsonObject {
  const { rpc } = REASONS[refusal.reason];
  const data = version === '1.0' ? [refusal.info] : refusal.metadata;
  return rpcError(id, rpc, refusal.message, data);
}

interface RpcCall {
  readonly id: RpcId | null;
  readonly method: string;
  readonly params: JsonObject;
  /** What is wrong with it; the id is known all the same, so that the caller learns which it was. */
  readonly problem?: A2AError;
}

function readCall(body: unknown): RpcCall {
  const request = isObject(body) ? body : {};
  const { id, method, params } = request;
  const known = typeof id === 'string' || typeof id === 'number' ? id : null;
  const call = {
    id: known,
    method: typeof method === 'string' ? method : '',
    params: isObject(params) ? params : {},
  };
  if (request['jsonrpc'] !== '2.0' || typeof method !== 'string')
    return { ...call, problem: invalid('INVALID_REQUEST', 'send one JSON-RPC 2.0 request') };
  // Without an id it would be a notification; A2A has none, so it is answered like one that has null.
  if (id !== null && id !== undefined && known === null)
    return { ...call, problem: invalid('INVALID_REQUEST', 'id is a string, a number or null') };
  if (params !== undefined && !isObject(params))
    return { ...call, problem: invalid('INVALID_PARAMS', 'params is an object') };
  return call;
}

const invalid = (reason: 'INVALID_REQUEST' | 'INVALID_PARAMS', message: string): A2AError =>
  new A2AError(reason, message);
