import { randomUUID } from 'node:crypto';
import { disposeOnce } from '../../../../stream/dispose-once.ts';
import { reportUnexpected } from '../../../../stream/report-unexpected.ts';
import { isRpcRequest } from '../../../../wire/json-rpc.ts';
import type { MessageEndpoint, ToolSource } from '../../../types.ts';
import { offerMessages } from '../../server/offer-messages.ts';
import { sendOutgoing } from '../../../relay/serve-endpoint.ts';
import type { JsonObject } from '../../../../json.ts';
import { EarlyCancels } from './early-cancels.ts';
import { ResumableStream } from './resumable-stream.ts';
import { refuseForeignOrigin } from './origin-guard.ts';
import { CLOSING, TOO_MUCH, type McpHandler, type McpHandlerOptions } from './mcp-handler.ts';
import { RunningBytes } from './running-bytes.ts';
import { postedMessages } from './read-post.ts';
import { refuseRequest, streamOf } from './http-responses.ts';

interface SseClient {
  readonly owner: string | undefined;
  readonly end: MessageEndpoint;
  readonly stream: ResumableStream;
  readonly early: EarlyCancels;
}

/**
 * Serves a source over the HTTP+SSE transport of 2024, for clients that support no other. GET opens
 * a stream for all messages; its first event names the address for POSTs. The stream is the
 * session: when it ends, its calls are aborted. Limits and checks are those of `mcpHandler`.
 */
export function sseHandler(source: ToolSource, options: McpHandlerOptions = {}): McpHandler {
  const { onError = reportUnexpected, maxSessions = 1_000, maxBodyBytes } = options;
  const clients = new Map<string, SseClient>();
  const running = new RunningBytes();
  let disposed = false;

  const close = async (id: string): Promise<void> => {
    const client = clients.get(id);
    clients.delete(id);
    client?.stream.end();
    await client?.end[Symbol.asyncDispose]();
  };

  const open = ({ url, signal }: Request, owner: string | undefined): Response => {
    if (disposed) return refuseRequest(503, CLOSING);
    if (clients.size >= maxSessions)
      return refuseRequest(503, 'all sessions are in use; try again later');
    const id = randomUUID();
    const end = offerMessages(source, options);
    const stream = new ResumableStream();
    clients.set(id, { owner, end, stream, early: new EarlyCancels() });
    sendOutgoing(end, (message) => stream.push(message))
      .then(() => close(id))
      .catch(onError);
    const first = { event: 'endpoint', data: `${new URL(url).pathname}?session=${id}` };
    const onClose = (): void => {
      close(id).catch(onError);
    };
    return streamOf(stream.read({ first, onClose, signal }));
  };

  const receive = async (
    { end, early }: SseClient,
    message: JsonObject,
  ): Promise<JsonObject | undefined> => {
    if (isRpcRequest(message))
      return early.take(message.id) ? undefined : early.during(message.id, end.receive(message));
    if (message['method'] === 'notifications/cancelled') early.cancel(message);
    return end.receive(message);
  };

  const post = async (request: Request, owner: string | undefined): Promise<Response> => {
    const client = clients.get(new URL(request.url).searchParams.get('session') ?? '');
    if (!client || client.owner !== owner)
      return refuseRequest(404, 'session not found; open the event stream again');
    const posted = await postedMessages(request, maxBodyBytes);
    if (posted instanceof Response) return posted;
    const done = running.take(owner, posted.length);
    if (!done) return refuseRequest(503, TOO_MUCH);
    // Responses are sent on the stream later; this request does not wait for them. Other messages
    // have arrived when this request is answered, also behind a bridge.
    const all = posted.messages.map((message) => {
      const received = receive(client, message)
        .then((answer) => answer && client.stream.push(answer))
        .catch(onError);
      return { received, isAwaited: !isRpcRequest(message) };
    });
    Promise.all(all.map(({ received }) => received))
      .finally(done)
      .catch(onError);
    for (const { received, isAwaited } of all) if (isAwaited) await received;
    return new Response(null, { status: 202 });
  };

  return {
    get sessions() {
      return clients.size;
    },
    async handle(request, owner) {
      const refused = refuseForeignOrigin(request, options);
      if (refused) return refused;
      if (request.method === 'GET') return open(request, owner);
      if (request.method === 'POST')
        // Only reading the body can fail here, because the client disconnected.
        return post(request, owner).catch(() => refuseRequest(400, 'the body is incomplete'));
      return refuseRequest(405, `method ${request.method} is not allowed`);
    },
    [Symbol.asyncDispose]: disposeOnce(async () => {
      disposed = true;
      await Promise.all([...clients.keys()].map(close));
    }),
  };
}
