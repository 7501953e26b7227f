import type { Fetch } from '../../http/light-fetch.ts';

/**
 * A `fetch` for several replicas of one server, alike but for their origin, where no balancer stands
 * before them: `connectA2A(urls[0], { fetch: replicaFetch(urls), origins: urls })`. Requests go to
 * one replica, whichever they name, until it fails or ends a stream; the next request then goes to
 * the next. Only a request that reached nobody is made again here: what else may be repeated, the
 * caller knows.
 */
export function replicaFetch(urls: readonly string[], fetch: Fetch = globalThis.fetch): Fetch {
  const origins = urls.map((url) => new URL(url).origin);
  let at = 0;
  const leave = (index: number): void => {
    if (index === at) at = (at + 1) % origins.length;
  };
  return async (input, init) => {
    for (let tries = 1; ; tries++) {
      const index = at;
      try {
        const response = await fetch(...moved(input, init, origins[index] as string));
        return isStream(response) ? onEnd(response, () => leave(index)) : response;
      } catch (error) {
        leave(index);
        if (tries >= origins.length || !reachedNobody(error)) throw error;
      }
    }
  };
}

function moved(...[input, init, origin]: [...Parameters<Fetch>, string]): Parameters<Fetch> {
  const { pathname, search } = new URL(input instanceof Request ? input.url : input);
  const url = `${origin}${pathname}${search}`;
  return input instanceof Request ? [new Request(url, input.clone()), init] : [url, init];
}

const isStream = ({ headers }: Response): boolean =>
  /^text\/event-stream\b/i.test(headers.get('content-type') ?? '');

/** The same response; `run` is called when its body ends, breaks or is left. */
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

// It failed before a byte was sent, so nobody has acted on it.
function reachedNobody(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  const causes = cause instanceof AggregateError ? (cause.errors as unknown[]) : [cause];
  return causes.every((each) => {
    const { syscall, code } = (each ?? {}) as { syscall?: unknown; code?: unknown };
    return syscall === 'connect' || code === 'UND_ERR_CONNECT_TIMEOUT';
  });
}
