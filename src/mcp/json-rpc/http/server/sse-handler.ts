import { randomUUID } from 'node:crypto';
import { disposeOnce } from '../../../../stream/dispose-once.ts';
import { reportUnexpected } from '../../../../stream/report-unexpected.ts';
import type { MessageEndpoint, ToolSource } from '../../../types.ts';
import { offerMessages } from '../../server/offer-messages.ts';
import { sendOutgoing } from '../../server/serve-messages.ts';
import { ResumableStream } from './resumable-stream.ts';
import { refuseForeignOrigin } from './origin-guard.ts';
import { CLOSING, type McpHandler, type McpHandlerOptions } from './mcp-handler.ts';
import { postedMessage } from './read-post.ts';
import { refuseRequest, streamOf } from './http-responses.ts';

interface SseClient {
  readonly owner: string | undefined;
  readonly end: MessageEndpoint;
  readonly stream: ResumableStream;
}

/**
 * Serves a source over the HTTP+SSE transport of 2024, for clients that support no other. GET opens
 * a stream for all messages; its first event names the address for POSTs. The stream is the
 * session: when it ends, its calls are aborted. Limits and checks are those of `mcpHandler`.
 */
export function sseHandler(source: ToolSource, options: McpHandlerOptions = {}): McpHandler {
  return new SseHandler(source, options);
}

class SseHandler implements McpHandler {
  readonly #source: ToolSource;
  readonly #options: McpHandlerOptions;
  readonly #clients = new Map<string, SseClient>();
  readonly #onError: (error: unknown) => void;
  #disposed = false;

  constructor(source: ToolSource, options: McpHandlerOptions) {
    this.#source = source;
    this.#options = options;
    this.#onError = options.onError ?? reportUnexpected;
  }

  get sessions(): number {
    return this.#clients.size;
  }

  readonly handle = async (request: Request, owner?: string): Promise<Response> => {
    const refused = refuseForeignOrigin(request, this.#options);
    if (refused) return refused;
    if (request.method === 'GET') return this.#open(request, owner);
    if (request.method === 'POST')
      // Only reading the body can fail here, because the client disconnected.
      return this.#post(request, owner).catch(() => refuseRequest(400, 'the body is incomplete'));
    return refuseRequest(405, `method ${request.method} is not allowed`);
  };

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    this.#disposed = true;
    await Promise.all([...this.#clients.keys()].map((id) => this.#close(id)));
  }

  #open({ url, signal }: Request, owner: string | undefined): Response {
    if (this.#disposed) return refuseRequest(503, CLOSING);
    if (this.#clients.size >= (this.#options.maxSessions ?? 1_000))
      return refuseRequest(503, 'all sessions are in use; try again later');
    const id = randomUUID();
    const end = offerMessages(this.#source, this.#options);
    const stream = new ResumableStream();
    this.#clients.set(id, { owner, end, stream });
    sendOutgoing(end, (message) => stream.push(message)).catch(this.#onError);
    const address = `${new URL(url).pathname}?session=${id}`;
    return streamOf(
      stream.read({
        first: { event: 'endpoint', data: address },
        onClose: () => {
          this.#close(id).catch(this.#onError);
        },
        signal,
      }),
    );
  }

  async #post(request: Request, owner: string | undefined): Promise<Response> {
    const client = this.#clients.get(new URL(request.url).searchParams.get('session') ?? '');
    if (!client || client.owner !== owner)
      return refuseRequest(404, 'session not found; open the event stream again');
    const message = await postedMessage(request, this.#options.maxBodyBytes);
    if (message instanceof Response) return message;
    // The response is sent on the stream later; this request does not wait for it.
    client.end
      .receive(message)
      .then((answer) => answer && client.stream.push(answer))
      .catch(this.#onError);
    return new Response(null, { status: 202 });
  }

  async #close(id: string): Promise<void> {
    const client = this.#clients.get(id);
    this.#clients.delete(id);
    client?.stream.end();
    await client?.end[Symbol.asyncDispose]();
  }
}
