import { DuolaneError } from '../../errors.ts';
import { asObjects, asString, type JsonObject } from '../../json.ts';
import { httpFailure } from './read-response.ts';
import type { ClientDialect } from '../protocol/client-dialect.ts';
import type { Operation } from '../protocol/dialect.ts';
import { errorOptions, REASONS, A2AError, type A2AErrorReason } from '../protocol/a2a-errors.ts';
import { METHOD_NAMES } from '../protocol/method-names.ts';

/** An HTTP request of the client before it is sent. */
export interface EncodedRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly body?: string;
}

/** The agent that a request is for. */
export interface Target {
  readonly url: string;
  readonly dialect: ClientDialect;
  readonly tenant?: string | undefined;
}

/**
 * Encodes an operation as a JSON-RPC request. Throws `unsupported` if the version has no such
 * method.
 */
export function encodeRpcRequest(
  { url, dialect, tenant }: Target,
  id: number,
  operation: Operation,
  params: JsonObject,
): EncodedRequest {
  const method = METHOD_NAMES[dialect.version][operation];
  if (method === undefined)
    throw new DuolaneError(
      'unsupported',
      `A2A ${dialect.version} over JSON-RPC has no operation "${operation}"`,
    );
  const given = dialect.hasTenants && tenant !== undefined ? { tenant, ...params } : params;
  const body = { jsonrpc: '2.0', id, method, params: dialect.encode(operation, given) };
  return { url, method: 'POST', body: JSON.stringify(body) };
}

/**
 * Encodes an operation as a REST request: ids in the path, filters in the query, the rest in the
 * body.
 */
export function restRequest(
  { url, dialect, tenant }: Target,
  operation: Operation,
  params: JsonObject,
): EncodedRequest {
  const { restPaths, hasTenants } = dialect;
  const named = hasTenants && tenant !== undefined ? `/${encodeURIComponent(tenant)}` : '';
  const prefix = restPaths.prefix + named;
  // The agent's URL may have a query of its own, which follows the path of the operation.
  const [address = '', ...given] = url.split('?');
  const base = `${address.endsWith('/') ? address.slice(0, -1) : address}${prefix}`;
  const query = (fields: JsonObject = {}): string => search(given.join('?'), fields);
  const { id, taskId = id, historyLength, ...more } = params;
  const task = `${base}/tasks/${segment(taskId)}`;
  const configs = `${task}/pushNotificationConfigs`;
  const body = (): string => JSON.stringify(dialect.encode(operation, params));
  switch (operation) {
    case 'send':
    case 'stream':
      return { url: `${base}/message:${operation}${query()}`, method: 'POST', body: body() };
    case 'get':
      return { url: `${task}${query({ historyLength })}`, method: 'GET' };
    case 'list':
      return { url: `${base}/tasks${query({ historyLength, ...more })}`, method: 'GET' };
    case 'cancel':
      return { url: `${task}:cancel${query()}`, method: 'POST', body: '{}' };
    case 'subscribe':
      return { url: `${task}:subscribe${query()}`, method: 'GET' };
    case 'createPush':
      return { url: `${configs}${query()}`, method: 'POST', body: body() };
    case 'getPush':
      return { url: `${configs}/${segment(id)}${query()}`, method: 'GET' };
    case 'listPush':
      return { url: `${configs}${query()}`, method: 'GET' };
    case 'deletePush':
      return { url: `${configs}/${segment(id)}${query()}`, method: 'DELETE' };
    case 'extendedCard':
      return { url: `${base}/${restPaths.extendedCard}${query()}`, method: 'GET' };
  }
}

/**
 * The error of a JSON-RPC or REST response: by the reason of 1.0, else by code, else by HTTP
 * status.
 */
export function errorFromResponse(
  { message, code, data, details }: JsonObject,
  response: Response,
): DuolaneError {
  const infos = [data, details].flatMap(asObjects);
  const named = infos.map(({ reason: name }) => name);
  const known = Object.keys(REASONS) as A2AErrorReason[];
  const reason =
    known.find((each) => named.includes(each)) ?? known.find((each) => REASONS[each].rpc === code);
  const text = asString(message, `the server returned HTTP ${response.status}`);
  if (reason === undefined) return httpFailure(response, text);
  const metadata = infos[0]?.['metadata'] ?? data;
  const { retryAfterMs } = httpFailure(response, text);
  return new A2AError(reason, text, {
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    ...errorOptions(metadata),
  });
}

const segment = (id: unknown): string => encodeURIComponent(String(id));

function search(given: string, params: JsonObject): string {
  const all = new URLSearchParams(given);
  for (const [name, value] of Object.entries(params))
    if (value !== undefined)
      all.set(name, typeof value === 'string' ? value : JSON.stringify(value));
  return all.size === 0 ? '' : `?${all.toString()}`;
}
