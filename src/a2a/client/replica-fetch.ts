import type { Fetch } from '../../http/light-fetch.ts';

/**
 * A `fetch` for several replicas of one server without a load balancer; their URLs differ in the
 * origin only. All requests go to one replica, whatever origin they name, until it fails or ends a
 * stream; the following requests go to the next one. A request is repeated here only if it reached
 * no server: whether any other request may be repeated is up to the caller.
 *
 * @example
 * const urls = ['http://127.0.0.1:3001', 'http://127.0.0.1:3002'] as const;
 * const client = await connectA2A(urls[0], { fetch: replicaFetch(urls), origins: urls });
 */
export function replicaFetch(urls: readonly string[], fetch: Fetch = globalThis.fetch): Fetch {
  const origins = urls.map((url) => new URL(url).origin);
  let at = 0;
  const skip = (index: number): void => {
    if (index === at) at = (at + 1) % origins.length;
  };
  return async (input, init) => {
    for (let tries = 1; ; tries++) {
      const index = at;
      try {
        const response = await fetch(...toOrigin(input, init, origins[index] as string));
        return isStream(response) ? onEnd(response, () => skip(index)) : response;
      } catch (error) {
        skip(index);
        if (tries >= origins.length || !isConnectFailure(error)) throw error;
      }
    }
  };
}

function toOrigin(...[input, init, origin]: [...Parameters<Fetch>, string]): Parameters<Fetch> {
  const { pathname, search } = new URL(input instanceof Request ? input.url : input);
  const url = `${origin}${pathname}${search}`;
  return input instanceof Request ? [new Request(url, input.clone()), init] : [url, init];
}

const isStream = ({ headers }: Response): boolean =>
  /^text\/event-stream\b/i.test(headers.get('content-type') ?? '');

/**
 * The same response, which calls `run` when its body ends or fails. A cancel by the reader does
 * not.
 */
function onEnd(response: Response, run: () => void): Response {
  if (!response.body) return response;
  const reader = response.body.getReader();
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (!done) return controller.enqueue(value);
          run();
          controller.close();
        } catch (error) {
          run();
          controller.error(error);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
  const { status, statusText, headers } = response;
  return new Response(body, { status, statusText, headers });
}

/** Whether a request failed before a byte was sent, so that no server can have handled it. */
function isConnectFailure(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  const causes = cause instanceof AggregateError ? (cause.errors as unknown[]) : [cause];
  return causes.every((each) => {
    const { syscall, code } = (each ?? {}) as { syscall?: unknown; code?: unknown };
    return syscall === 'connect' || code === 'UND_ERR_CONNECT_TIMEOUT';
  });
}
