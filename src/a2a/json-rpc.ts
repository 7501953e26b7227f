import { isObject, type JsonObject } from '../json.ts';
import { sseResponse, type SseItem } from '../http/sse.ts';
import { keepAlive } from '../stream/keep-alive.ts';
import type { TaskState } from '../event/types.ts';
import { rpcResult, type RpcId } from '../wire/json-rpc.ts';
import { encodeEvent03, encodeTask03 } from './codec-0.3.ts';
import { REASONS, Refusal } from './errors.ts';
import type { A2ATask, StreamEvent } from './model.ts';
import type { Numbered, Operations } from './operations.ts';
import { readLength, readSend, readTaskId, type Version } from './requests.ts';
import { STATES } from './task.ts';

type Operation =
  | 'send'
  | 'stream'
  | 'get'
  | 'list'
  | 'cancel'
  | 'subscribe'
  | 'push'
  | 'extendedCard';

/** A method's name says its dialect; the two sets do not meet. */
const METHODS: Readonly<Record<string, { readonly does: Operation; readonly version: Version }>> = {
  SendMessage: { does: 'send', version: '1.0' },
  SendStreamingMessage: { does: 'stream', version: '1.0' },
  GetTask: { does: 'get', version: '1.0' },
  ListTasks: { does: 'list', version: '1.0' },
  CancelTask: { does: 'cancel', version: '1.0' },
  SubscribeToTask: { does: 'subscribe', version: '1.0' },
  CreateTaskPushNotificationConfig: { does: 'push', version: '1.0' },
  GetTaskPushNotificationConfig: { does: 'push', version: '1.0' },
  ListTaskPushNotificationConfigs: { does: 'push', version: '1.0' },
  DeleteTaskPushNotificationConfig: { does: 'push', version: '1.0' },
  GetExtendedAgentCard: { does: 'extendedCard', version: '1.0' },
  'message/send': { does: 'send', version: '0.3' },
  'message/stream': { does: 'stream', version: '0.3' },
  'tasks/get': { does: 'get', version: '0.3' },
  'tasks/cancel': { does: 'cancel', version: '0.3' },
  'tasks/resubscribe': { does: 'subscribe', version: '0.3' },
  'tasks/pushNotificationConfig/set': { does: 'push', version: '0.3' },
  'tasks/pushNotificationConfig/get': { does: 'push', version: '0.3' },
  'tasks/pushNotificationConfig/list': { does: 'push', version: '0.3' },
  'tasks/pushNotificationConfig/delete': { does: 'push', version: '0.3' },
  'agent/getAuthenticatedExtendedCard': { does: 'extendedCard', version: '0.3' },
};

export interface JsonRpcOptions {
  readonly operations: Operations;
  readonly heartbeatMs: number;
  readonly maxBodyBytes: number;
  /** Failures of ours, which the caller is not told in full. */
  readonly onError: (error: unknown) => void;
}

/** The JSON-RPC binding of both versions on one URL. */
export async function serveJsonRpc(
  request: Request,
  owner: string | undefined,
  options: JsonRpcOptions,
): Promise<Response> {
  let id: RpcId | null = null;
  let version: Version = '1.0';
  try {
    const asked = readVersion(request);
    version = asked ?? '0.3';
    const call = await readCall(request, options.maxBodyBytes);
    id = call.id;
    const method = METHODS[call.method];
    if (!method || (asked !== undefined && asked !== method.version)) {
      throw new Refusal(
        'METHOD_NOT_FOUND',
        `there is no method ${call.method}${asked ? ` in A2A ${asked}` : ''}`,
      );
    }
    version = method.version;
    return await perform(method.does, call.params, { id, version, owner, request, options });
  } catch (error) {
    const refusal = Refusal.of(error);
    if (refusal.reason === 'INTERNAL_ERROR') options.onError(error);
    return Response.json(failure(id, refusal, version));
  }
}

interface Call {
  readonly id: RpcId | null;
  readonly version: Version;
  readonly owner: string | undefined;
  readonly request: Request;
  readonly options: JsonRpcOptions;
}

async function perform(does: Operation, params: unknown, call: Call): Promise<Response> {
  const { version, owner, request } = call;
  const { operations } = call.options;
  const { signal } = request;
  const reply = (result: unknown): Response => Response.json(rpcResult(call.id as RpcId, result));
  const task = (value: A2ATask): JsonObject =>
    version === '0.3' ? encodeTask03(value) : { ...value };
  switch (does) {
    case 'send': {
      const incoming = readSend(params, version);
      const sent = await operations.send(await operations.prepare(incoming, owner), incoming, {
        signal,
      });
      return reply(version === '0.3' ? encodeTask03(sent) : { task: sent });
    }
    case 'stream': {
      const turn = await operations.prepare(readSend(params, version), owner);
      return streamed(operations.stream(turn, { signal }), call);
    }
    case 'get': {
      const { id, params: more } = readTaskId(params);
      return reply(task(await operations.get(id, owner, readLength(more['historyLength']))));
    }
    case 'cancel':
      return reply(task(await operations.cancel(readTaskId(params).id, owner, { signal })));
    case 'subscribe': {
      const { id, params: more } = readTaskId(params);
      const after = lastEventId(request, more);
      if (after === undefined && version === '1.0' && (await operations.ended(id, owner))) {
        throw new Refusal(
          'UNSUPPORTED_OPERATION',
          `task ${id} has ended; read it with GetTask, or subscribe with Last-Event-ID to get what was missed`,
        );
      }
      await operations.get(id, owner, 0);
      return streamed(
        operations.subscribe(id, owner, { signal, ...(after !== undefined && { after }) }),
        call,
      );
    }
    case 'list':
      return reply(await list(params, owner, operations));
    case 'push':
      throw new Refusal(
        'PUSH_NOTIFICATION_NOT_SUPPORTED',
        'this server sends no push notifications',
      );
    case 'extendedCard':
      throw new Refusal(
        version === '0.3' ? 'EXTENDED_AGENT_CARD_NOT_CONFIGURED' : 'UNSUPPORTED_OPERATION',
        'this agent has no extended card',
      );
  }
}

async function list(
  params: unknown,
  owner: string | undefined,
  operations: Operations,
): Promise<JsonObject> {
  const query = isObject(params) ? params : {};
  const pageSize = query['pageSize'] ?? 50;
  if (
    typeof pageSize !== 'number' ||
    !Number.isInteger(pageSize) ||
    pageSize < 1 ||
    pageSize > 100
  ) {
    throw new Refusal('INVALID_PARAMS', 'pageSize must be a whole number from 1 to 100');
  }
  const state = (Object.entries(STATES) as [TaskState, string][]).find(
    ([, wire]) => wire === query['status'],
  )?.[0];
  if (query['status'] !== undefined && !state) {
    throw new Refusal('INVALID_PARAMS', `there is no state ${JSON.stringify(query['status'])}`);
  }
  const after = query['pageToken'];
  const historyLength = readLength(query['historyLength']);
  const filter = {
    ...(owner !== undefined && { owner }),
    ...(typeof query['contextId'] === 'string' && { context: query['contextId'] }),
    ...(state && { state }),
    ...(typeof query['statusTimestampAfter'] === 'string' && {
      changedAfter: Date.parse(query['statusTimestampAfter']),
    }),
  };
  const page = await operations.list(
    { ...filter, ...(typeof after === 'string' && after !== '' && { after }) },
    {
      pageSize,
      artifacts: query['includeArtifacts'] === true,
      ...(historyLength !== undefined && { historyLength }),
    },
  );
  return { ...page, pageSize: page.tasks.length, totalSize: await operations.count(filter) };
}

/** Headers go out at once; what fails after them is told inside the stream. */
function streamed(events: AsyncGenerator<Numbered, void, undefined>, call: Call): Response {
  return sseResponse(
    keepAlive(encodeStream(events, call), call.options.heartbeatMs, () => 'heartbeat' as const),
  );
}

async function* encodeStream(
  events: AsyncGenerator<Numbered, void, undefined>,
  { id, version, options }: Call,
): AsyncGenerator<SseItem, void, undefined> {
  const head = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`;
  try {
    for await (const { id: eventId, out } of events) {
      yield { id: eventId, data: `${head}${JSON.stringify(encodeEvent(out, version))}}` };
    }
  } catch (error) {
    const refusal = Refusal.of(error);
    if (refusal.reason === 'INTERNAL_ERROR') options.onError(error);
    yield { event: 'error', data: JSON.stringify(failure(id, refusal, version)) };
  }
}

const encodeEvent = (event: StreamEvent, version: Version): unknown =>
  version === '0.3' ? encodeEvent03(event) : event;

function failure(id: RpcId | null, refusal: Refusal, version: Version): JsonObject {
  const { rpc } = REASONS[refusal.reason];
  const info = {
    '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
    reason: refusal.reason,
    domain: 'a2a-protocol.org',
  };
  const data = version === '1.0' ? { data: [info] } : {};
  return { jsonrpc: '2.0', id, error: { code: rpc, message: refusal.message, ...data } };
}

/** The version that the caller asked for; the patch number takes no part. */
function readVersion(request: Request): Version | undefined {
  const given =
    request.headers.get('a2a-version') ||
    new URL(request.url).searchParams.get('A2A-Version') ||
    undefined;
  if (given === undefined) return undefined;
  const [, version] = /^(\d+\.\d+)(?:\.\d+)?$/.exec(given.trim()) ?? [];
  if (version === '1.0' || version === '0.3') return version;
  throw new Refusal('VERSION_NOT_SUPPORTED', `A2A ${given} is not spoken here; ask for 1.0 or 0.3`);
}

/** Where the caller's last stream broke off: by SSE's own header, or in the request. */
function lastEventId(request: Request, params: JsonObject): string | undefined {
  const metadata = isObject(params['metadata']) ? params['metadata'] : {};
  const given = request.headers.get('last-event-id') ?? metadata['lastEventId'];
  return typeof given === 'string' && given !== '' ? given : undefined;
}

async function readCall(
  request: Request,
  maxBytes: number,
): Promise<{ readonly id: RpcId | null; readonly method: string; readonly params: unknown }> {
  const type = request.headers.get('content-type') ?? '';
  if (!/^application\/(a2a\+)?json\b/i.test(type)) {
    throw new Refusal('CONTENT_TYPE_NOT_SUPPORTED', `send application/json, not "${type}"`);
  }
  const body: unknown = parse(await readBody(request, maxBytes));
  if (!isObject(body) || body['jsonrpc'] !== '2.0' || typeof body['method'] !== 'string') {
    throw new Refusal('INVALID_REQUEST', 'the body must be one JSON-RPC 2.0 request');
  }
  const id = body['id'];
  if (id !== null && typeof id !== 'string' && typeof id !== 'number') {
    throw new Refusal('INVALID_REQUEST', 'id must be a string, a number or null');
  }
  return { id, method: body['method'], params: body['params'] };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Refusal('PARSE_ERROR', 'the body is not JSON', { cause });
  }
}

/** The body as text; one over the limit is refused before it is read to the end. */
async function readBody(request: Request, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.length;
    if (length > maxBytes)
      throw new Refusal('INVALID_PARAMS', `the body is over ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
