import { disconnectSignal } from '../../http/node-request.ts';
import { textResponse } from '../../http/text-response.ts';
import { isObject, omitUndefined, type JsonObject } from '../../json.ts';
import { toHttpResponse, headersOf } from './http-response.ts';
import { toA2AError, type OperationCall, type ServerContext } from './dispatch-operation.ts';
import { DIALECT_03_REST } from '../v0.3/rest-dialect.ts';
import {
  DIALECT_10,
  inSnakeCase,
  isSnakeCase,
  type Dialect,
  type Operation,
} from '../protocol/dialect.ts';
import { REASONS, A2AError } from '../protocol/a2a-errors.ts';
import {
  checkJson,
  headerFields,
  parseJson,
  readBody,
  readCallFields,
  readVersion,
} from './read-request.ts';
import type { Caller } from './task-operations.ts';

interface Route {
  readonly methods: readonly string[];
  readonly path: RegExp;
  readonly operation: Operation;
}

const id = '([^/:]+)';
const route = (methods: string, path: string, operation: Operation): Route => ({
  methods: methods.split(' '),
  path: new RegExp(`^${path}$`),
  operation,
});

/**
 * The paths under the agent's URL, and under `/v1` for 0.3. `subscribe` has two methods, because
 * the text of the specification and its protobuf disagree.
 */
const ROUTES: readonly Route[] = [
  route('POST', '/message:send', 'send'),
  route('POST', '/message:stream', 'stream'),
  route('GET', '/tasks', 'list'),
  route('GET', `/tasks/${id}`, 'get'),
  route('POST', `/tasks/${id}:cancel`, 'cancel'),
  route('GET POST', `/tasks/${id}:subscribe`, 'subscribe'),
  route('POST', `/tasks/${id}/pushNotificationConfigs`, 'createPush'),
  route('GET', `/tasks/${id}/pushNotificationConfigs`, 'listPush'),
  route('GET', `/tasks/${id}/pushNotificationConfigs/${id}`, 'getPush'),
  route('DELETE', `/tasks/${id}/pushNotificationConfigs/${id}`, 'deletePush'),
  route('GET', '/(?:extendedAgentCard|card)', 'extendedCard'),
];

const STATUS: Partial<Record<Operation, number>> = { createPush: 201, deletePush: 204 };

/** Whether a path under the agent's URL belongs to this binding. */
export const isRestPath = (path: string): boolean => {
  const [, first = '', second = ''] = path.split('/');
  return [first, second].some((part) =>
    /^(message:(send|stream)|tasks(:.*)?|extendedAgentCard|card)$/.test(part),
  );
};

/**
 * Handles a REST request: 1.0 under the agent's URL, or under a tenant's name there; 0.3 under
 * `/v1`.
 */
export async function serveRest(
  request: Request,
  path: string,
  caller: Caller,
  server: ServerContext,
): Promise<Response> {
  const type = mediaType(request);
  const head = { dialect: DIALECT_10 as Dialect };
  try {
    const call = await readOperation(request, path, caller, server, head);
    const { operation, dialect } = call;
    return await toHttpResponse(call, server, {
      result: (value) => json(value, STATUS[operation] ?? 200, type),
      event: JSON.stringify,
      error: (error) => JSON.stringify(dialect.restError(error)),
    });
  } catch (error) {
    const failure = toA2AError(error, server.onError);
    const { http } = REASONS[failure.reason];
    return json(head.dialect.restError(failure), http, type, headersOf(failure));
  }
}

/**
 * Reads a request, and sets its dialect in `head`, also if it fails. A function of its own: the
 * operation may wait long, and the frame of this function would keep the body in memory.
 */
async function readOperation(
  request: Request,
  path: string,
  caller: Caller,
  server: ServerContext,
  head: { dialect: Dialect },
): Promise<OperationCall> {
  const requested = readVersion(request);
  const is03 = path.startsWith('/v1/') && requested !== '1.0';
  if (is03) head.dialect = DIALECT_03_REST;
  const found = find(request.method, is03 ? path.slice(3) : path, !is03);
  if (!found || (requested === '0.3' && !is03))
    throw new A2AError('METHOD_NOT_FOUND', `unknown operation ${request.method} ${path}`);
  const { operation, tenant } = found;
  const given = await readParams(request, server.maxBodyBytes);
  // The JSON form of protobuf allows snake_case. Some 0.3 callers that write it cannot read
  // camelCase.
  if (is03 && isSnakeCase(given)) head.dialect = inSnakeCase(head.dialect);
  return {
    operation,
    dialect: head.dialect,
    params: { ...given, ...pathParams(found) },
    caller: { ...caller, ...(tenant !== undefined && { tenant }) },
    ...readCallFields(headerFields(request), given),
    disconnect: disconnectSignal(request),
  };
}

/** The operation of a path, with the ids in it. */
interface Found {
  readonly operation: Operation;
  readonly tenant?: string;
  readonly task: string | undefined;
  readonly config: string | undefined;
}

function find(method: string, path: string, tenants: boolean): Found | undefined {
  for (const { methods, path: pattern, operation } of ROUTES) {
    const match = methods.includes(method) ? pattern.exec(path) : null;
    if (!match) continue;
    const [task, config] = match.slice(1).map(decode);
    return { operation, task, config };
  }
  const [, tenant, rest] = (tenants && /^\/([^/]+)(\/.+)$/.exec(path)) || [];
  const found = rest === undefined ? undefined : find(method, rest, false);
  return found && tenant !== undefined ? { ...found, tenant: decode(tenant) } : undefined;
}

/** The ids of the path, under the parameter names of the operation. */
const pathParams = ({ operation, task, config }: Found): JsonObject =>
  omitUndefined<JsonObject>(
    operation.endsWith('Push') ? { taskId: task, id: config } : { id: task },
  );

const NUMBERS = /^(history_?length|page_?size)$/i;
const FLAGS = /^include_?artifacts$/i;

/**
 * The parameters of query and body. Converts numbers and flags of the query, which has strings
 * only.
 */
async function readParams(request: Request, maxBytes: number): Promise<JsonObject> {
  const params: Record<string, unknown> = {};
  for (const [name, value] of new URL(request.url).searchParams) {
    if (value === '') continue;
    if (NUMBERS.test(name)) params[name] = /^-?\d+$/.test(value) ? Number(value) : value;
    else params[name] = FLAGS.test(name) ? value === 'true' : value;
  }
  if (request.method !== 'POST') return params;
  const type = request.headers.get('content-type');
  const text = await readBody(request, maxBytes);
  if (text !== '' || type !== null) checkJson(String(type));
  const body = text === '' ? {} : parseJson(text);
  if (!isObject(body))
    throw new A2AError('INVALID_REQUEST', 'invalid body: expected a JSON object');
  return { ...params, ...body };
}

/**
 * The media type of the response: 1.0.1 has its own, 1.0.0 and 0.3 do not know it, so use the
 * caller's.
 */
function mediaType({ headers }: Request): string {
  const types = `${headers.get('content-type')} ${headers.get('accept')}`;
  return types.includes('application/a2a+json') ? 'application/a2a+json' : 'application/json';
}

const json = (
  body: unknown,
  status: number,
  type: string,
  headers: Readonly<Record<string, string>> = {},
): Response =>
  status === 204
    ? new Response(null, { status, headers })
    : textResponse(JSON.stringify(body), status, { 'content-type': type, ...headers });

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch (cause) {
    throw new A2AError(
      'INVALID_PARAMS',
      `invalid path segment "${segment}": expected percent-encoded text`,
      { cause },
    );
  }
}
