import { disconnectSignal } from '../../http/node-request.ts';
import { textResponse } from '../../http/text-response.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { toHttpResponse, headersOf } from './http-response.ts';
import { toA2AError, type ServerContext } from './begin-call.ts';
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
  headerFields,
  parseJson,
  readBody,
  readExtensions,
  readLastEventId,
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

/** The paths behind the agent's URL, and behind `/v1` for 0.3. The spec's text and its proto disagree on subscribe: both are served. */
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

/** Whether a path behind the agent's URL is one of this binding. */
export const isRestPath = (path: string): boolean => {
  const [, first = '', second = ''] = path.split('/');
  return [first, second].some((part) =>
    /^(message:(send|stream)|tasks(:.*)?|extendedAgentCard|card)$/.test(part),
  );
};

/** The HTTP+JSON binding: 1.0 behind the agent's URL, or a tenant's name behind it; 0.3 behind `/v1`. */
export async function serveRest(
  request: Request,
  path: string,
  caller: Caller,
  binding: ServerContext,
): Promise<Response> {
  const type = mediaType(request);
  let dialect: Dialect = DIALECT_10;
  try {
    const asked = readVersion(request);
    const old = path.startsWith('/v1/') && asked !== '1.0';
    if (old) dialect = DIALECT_03_REST;
    const found = find(request.method, old ? path.slice(3) : path, !old);
    if (!found || (asked === '0.3' && !old))
      throw new A2AError('METHOD_NOT_FOUND', `there is no ${request.method} ${path}`);
    const { operation, tenant } = found;
    const given = await readParams(request, binding.maxBodyBytes);
    // The JSON form of protobuf has two spellings; a caller of 0.3 who writes one may read no other.
    if (old && isSnakeCase(given)) dialect = inSnakeCase(dialect);
    const fields = headerFields(request);
    const call = {
      operation,
      dialect,
      params: { ...given, ...pathParams(found) },
      caller: { ...caller, ...(tenant !== undefined && { tenant }) },
      lastEventId: readLastEventId(fields, given),
      extensions: readExtensions(fields),
      leaving: disconnectSignal(request),
    };
    return await toHttpResponse(call, binding, {
      result: (value) => json(value, STATUS[operation] ?? 200, type),
      event: JSON.stringify,
      error: (refusal) => JSON.stringify(failure(refusal, call.dialect)),
    });
  } catch (error) {
    const refusal = toA2AError(error, binding.onError);
    const { http } = REASONS[refusal.reason];
    return json(failure(refusal, dialect), http, type, headersOf(refusal));
  }
}

interface Found {
  readonly operation: Operation;
  readonly tenant?: string;
  readonly task?: string;
  readonly config?: string;
}

function find(method: string, path: string, tenants: boolean): Found | undefined {
  for (const { methods, path: pattern, operation } of ROUTES) {
    const match = methods.includes(method) ? pattern.exec(path) : null;
    if (!match) continue;
    const [, task, config] = match;
    return {
      operation,
      ...(task !== undefined && { task: decode(task) }),
      ...(config !== undefined && { config: decode(config) }),
    };
  }
  const [, tenant, rest] = (tenants && /^\/([^/]+)(\/.+)$/.exec(path)) || [];
  const found = rest === undefined ? undefined : find(method, rest, false);
  return found && tenant !== undefined ? { ...found, tenant: decode(tenant) } : undefined;
}

/** The ids in the path, under the names that the operation has for them. */
function pathParams({ operation, task, config }: Found): JsonObject {
  const push = operation.endsWith('Push');
  return {
    ...(task !== undefined && { [push ? 'taskId' : 'id']: task }),
    ...(config !== undefined && { id: config }),
  };
}

const NUMBERS = /^(history_?length|page_?size)$/i;
const FLAGS = /^include_?artifacts$/i;

/** The query and the body together. A query has only strings; those that stand for more are read here. */
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
  if (text !== '' || type !== null) {
    if (!/^application\/(a2a\+)?json\b/i.test(type ?? ''))
      throw new A2AError('CONTENT_TYPE_NOT_SUPPORTED', `send application/json, not "${type}"`);
  }
  const body = text === '' ? {} : parseJson(text);
  if (!isObject(body)) throw new A2AError('INVALID_REQUEST', 'the body must be a JSON object');
  return { ...params, ...body };
}

/** 1.0.1 prefers its own media type, 1.0.0 and 0.3 know only the general one: answer with the caller's. */
function mediaType({ headers }: Request): string {
  const asked = `${headers.get('content-type')} ${headers.get('accept')}`;
  return asked.includes('application/a2a+json') ? 'application/a2a+json' : 'application/json';
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

function failure(refusal: A2AError, { version }: Dialect): JsonObject {
  const { message, reason, info, metadata } = refusal;
  const { rpc, http, status } = REASONS[reason];
  if (version === '0.3') return { code: rpc, message, ...(metadata && { data: metadata }) };
  return { error: { code: http, status, message, details: [info] } };
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch (cause) {
    throw new A2AError('INVALID_PARAMS', `${segment} is no part of a path`, { cause });
  }
}
