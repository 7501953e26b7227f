import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:http2';
import fc from 'fast-check';
import type { Agent } from '../../src/event/types.ts';
import { encodeFrame } from '../../src/grpc/frames.ts';
import { createRegistry, tool } from '../../src/mcp/index.ts';
import { serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import { mutatedText } from './inputs.ts';
import { RPC_MESSAGES, type Target } from './parsers.ts';

interface HttpInput {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const MESSAGE_10 = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hi' }] };
const MESSAGE_03 = {
  messageId: 'm',
  role: 'user',
  kind: 'message',
  parts: [{ kind: 'text', text: 'hi' }],
};
const configuration = { returnImmediately: true, blocking: false, historyLength: 1 };

const A2A_10: readonly unknown[] = [
  { method: 'SendMessage', params: { message: MESSAGE_10, configuration } },
  { method: 'SendStreamingMessage', params: { message: MESSAGE_10, metadata: { a: 1 } } },
  { method: 'GetTask', params: { id: 't', historyLength: 2 } },
  { method: 'ListTasks', params: { pageSize: 2, pageToken: 'x', status: 'TASK_STATE_WORKING' } },
  { method: 'CancelTask', params: { id: 't' } },
  { method: 'SubscribeToTask', params: { id: 't' } },
  { method: 'CreateTaskPushNotificationConfig', params: { taskId: 't', url: 'https://a.test' } },
].map((one) => ({ jsonrpc: '2.0', id: 1, ...one }));

const A2A_03: readonly unknown[] = [
  { method: 'message/send', params: { message: MESSAGE_03, configuration } },
  { method: 'message/stream', params: { message: MESSAGE_03 } },
  { method: 'tasks/get', params: { id: 't', historyLength: 2 } },
  { method: 'tasks/cancel', params: { id: 't' } },
  { method: 'tasks/resubscribe', params: { id: 't' } },
  {
    method: 'tasks/pushNotificationConfig/set',
    params: { taskId: 't', pushNotificationConfig: { url: 'https://a.test', token: 'x' } },
  },
].map((one) => ({ jsonrpc: '2.0', id: 1, ...one }));

const POSTS: readonly unknown[] = [
  { id: 'c', messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'hi' }] }] },
  {
    id: 'c',
    messages: [
      {
        id: 'm',
        role: 'user',
        parts: [{ type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,aGk=' }],
      },
    ],
  },
  { threadId: 't', runId: 'r', messages: [{ id: 'm', role: 'user', content: 'hi' }], tools: [] },
  { type: 'user', session_id: 's', message: { role: 'user', content: 'hi' } },
];

const TURNS: readonly unknown[] = [
  { text: 'hi', context: 'c' },
  { parts: [{ text: 'hi' }, { data: { a: 1 } }], messageId: 'm' },
  { answers: [{ id: 'q', action: 'accept', content: { a: 1 } }] },
];

/** Parts of a path; the fourth is the doubly encoded traversal of a real attack. */
const segment = fc.oneof(
  fc.constantFrom('t', 'agent', '%2e%2e', '%252e%252e%2Fetc', '..', '%00', '%ff', '%', 'a%0d%0ab'),
  fc.constantFrom('__proto__', 'constructor', '', '*', '~', 'x'.repeat(2000), 'tasks', 'v1'),
  fc.string({ maxLength: 8 }).map((text) => encodeURIComponent(text)),
);

const query = fc.constantFrom(
  '',
  '?',
  '?pageSize=-1',
  '?pageSize=1e9&pageToken=x',
  '?after=9007199254740993',
  '?after=x&limit=0',
  '?%',
  '?a=1&a=2&__proto__=1',
  '?historyLength=abc',
);

/** `{}` is a placeholder for a generated part. */
function pathOf(templates: readonly string[]): fc.Arbitrary<string> {
  return fc
    .tuple(fc.constantFrom(...templates), fc.array(segment, { minLength: 3, maxLength: 3 }), query)
    .map(([template, parts, tail]) => {
      let at = 0;
      return template.replaceAll('{}', () => parts[at++ % parts.length] ?? '') + tail;
    });
}

const header = fc.record(
  {
    'a2a-version': fc.constantFrom('1.0', '1.0', '1.0', '0.3', '9.9', '', 'x'),
    'last-event-id': fc.constantFrom('1', '-1', '1.0', '9007199254740993', 'x', ''),
    accept: fc.constantFrom(
      'application/json, text/event-stream',
      'text/event-stream',
      'application/json',
      '*/*',
      '',
    ),
    'mcp-session-id': fc.constantFrom('x', '__proto__', ''),
    'mcp-protocol-version': fc.constantFrom('2025-11-25', '2026-07-28', '1999-01-01', ''),
    'content-type': fc.constantFrom('application/json', 'text/plain', 'application/json;charset=x'),
    traceparent: fc.constantFrom('00-x-y-01', ''),
  },
  { requiredKeys: ['content-type'] },
);

function calls(
  methods: readonly string[],
  paths: readonly string[],
  bodies: readonly unknown[],
): fc.Arbitrary<HttpInput> {
  return fc.record({
    method: fc.constantFrom(...methods),
    path: pathOf(paths),
    headers: header,
    body: mutatedText(bodies),
  });
}

/** A server with every feature on, and its targets: no response may be a 5xx. */
export async function routes(): Promise<{ targets: Target[] } & AsyncDisposable> {
  const agent: Agent = async function* () {
    yield { type: 'text.delta', id: 't', delta: 'done' };
  };
  const tools = createRegistry({ name: 's', tools: [tool('echo', 'Echo', {}, async () => 'x')] });
  const quiet = (): void => {};
  const served = await serve(agent, {
    log: memoryLog(),
    tools,
    grpc: {},
    logger: { error: quiet, warn: quiet, info: quiet, debug: quiet },
  });
  const http2 = connect(served.grpcUrl!.replace(/^grpc:/, 'http:'));
  http2.on('error', quiet);
  const http = (name: string, tries: number, inputs: fc.Arbitrary<HttpInput>): Target => ({
    name,
    tries,
    inputs,
    run: (input) => send(served.url, input as HttpInput),
  });
  const targets: Target[] = [
    http('a2a-1.0-json-rpc', 300, calls(['POST'], ['/a2a/agent', '/a2a/{}'], A2A_10)),
    http('a2a-0.3-json-rpc', 300, calls(['POST'], ['/a2a/agent', '/a2a/{}'], A2A_03)),
    http(
      'a2a-rest',
      300,
      calls(
        ['POST', 'GET', 'DELETE'],
        [
          '/a2a/agent/message:send',
          '/a2a/agent/message:stream',
          '/a2a/agent/tasks',
          '/a2a/agent/tasks/{}',
          '/a2a/agent/tasks/{}:cancel',
          '/a2a/agent/tasks/{}:subscribe',
          '/a2a/agent/tasks/{}/pushNotificationConfigs/{}',
          '/a2a/agent/v1/message:send',
          '/a2a/agent/v1/tasks/{}',
          '/a2a/agent/{}/tasks/{}',
          '/a2a/agent/card',
        ],
        [
          { message: MESSAGE_10, configuration },
          { message: MESSAGE_03 },
          { url: 'https://a.test' },
        ],
      ),
    ),
    http(
      'page-api',
      300,
      calls(
        ['GET', 'POST', 'DELETE', 'HEAD'],
        [
          '/api/agents',
          '/api/agents/{}/turns',
          '/api/agents/agent/turns',
          '/api/tasks',
          '/api/tasks/{}',
          '/api/tasks/{}/turns',
          '/api/tasks/{}/cancel',
          '/api/tasks/{}/entries',
          '/api/tasks/{}/trace',
          '/api/replicas',
          '/api/session',
          '/assets/{}',
          '/assets/{}/{}',
          '/blobs/{}',
          '/{}/{}',
          '/.well-known/{}',
        ],
        TURNS,
      ),
    ),
    http(
      'outputs',
      300,
      calls(
        ['POST', 'GET'],
        [
          '/ui/agent',
          '/ag-ui/agent',
          '/stream-json/agent',
          '/ui/agent/{}/stream',
          '/ag-ui/agent/{}/stop',
          '/ui/{}',
        ],
        POSTS,
      ),
    ),
    http('mcp-http', 300, calls(['POST', 'DELETE', 'PUT'], ['/mcp', '/mcp/{}'], RPC_MESSAGES)),
    {
      name: 'a2a-grpc',
      tries: 200,
      inputs: fc.record({
        path: fc.constantFrom(
          '/lf.a2a.v1.A2AService/SendMessage',
          '/lf.a2a.v1.A2AService/GetTask',
          '/lf.a2a.v1.A2AService/ListTasks',
          '/lf.a2a.v1.A2AService/SubscribeToTask',
          '/a2a.v1.A2AService/SendMessage',
          '/a2a.v1.A2AService/GetTask',
          '/grpc.health.v1.Health/Check',
          '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
          '/x/y',
        ),
        bytes: fc.uint8Array({ maxLength: 60 }).map((all) => [...all]),
        framed: fc.boolean(),
      }),
      run: (input) => sendGrpc(input as GrpcInput),
    },
  ];

  interface GrpcInput {
    readonly path: string;
    readonly bytes: readonly number[];
    readonly framed: boolean;
  }

  async function sendGrpc({ path, bytes, framed }: GrpcInput): Promise<void> {
    const stream = http2.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    let status: unknown;
    stream.on('response', (headers) => (status = headers['grpc-status'] ?? status));
    stream.on('trailers', (headers) => (status = headers['grpc-status'] ?? status));
    const closed = new Promise((resolve) => stream.on('close', resolve).on('error', quiet));
    const data = Uint8Array.from(bytes);
    stream.end(framed ? encodeFrame(data) : data);
    stream.resume();
    await closed;
    if (status === undefined && stream.rstCode === 0) throw new Error('there was no gRPC status');
    // UNKNOWN is the status after an unexpected error of a handler.
    if (String(status) === '2') throw new Error(`${path} answered UNKNOWN`);
  }

  return {
    targets,
    async [Symbol.asyncDispose]() {
      http2.close();
      await served[Symbol.asyncDispose]();
    },
  };
}

/**
 * Sends the path as it is written; reads the head and the first chunk, since streams may stay open.
 */
async function send(url: string, { method, path, headers, body }: HttpInput): Promise<void> {
  const { hostname, port } = new URL(url);
  const isPlain = /^[\x21-\x7e]*$/.test(path);
  if (!isPlain) return;
  const sending = httpRequest({ hostname, port, method, path, headers });
  sending.on('error', () => {}); // the server may respond before it has read everything
  sending.end(method === 'GET' || method === 'HEAD' ? undefined : body);
  const [response] = (await once(sending, 'response')) as [IncomingMessage];
  const status = response.statusCode ?? 0;
  const first = await new Promise<string>((resolve) => {
    response.once('data', (chunk: Buffer) => resolve(chunk.toString()));
    response.once('close', () => resolve(''));
  });
  response.destroy();
  if (status >= 500)
    throw new Error(`${method} ${path} answered ${status}: ${first.slice(0, 200)}`);
  if (/"code":-32603\b/.test(first)) throw new Error(`${method} ${path}: ${first.slice(0, 300)}`);
}
