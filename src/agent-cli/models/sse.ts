import { DuolaneError } from '../../errors.ts';
import { httpStatusError } from '../../event/retry/model-error.ts';
import type { JsonObject } from '../../json.ts';
import { InvalidLine } from '../../wire/jsonl.ts';
import { SseDecoder } from '../../wire/sse.ts';

const MAX_REDIRECTS = 5;
const MAX_ERROR_CHARS = 64 * 1024;

/**
 * Posts a JSON request to a model API and yields the `data` of each event of the response. Reads
 * the body to its end, so that the connection can be reused; breaking out of the loop cancels the
 * body. Throws the error of a failed request, and `too_large` for an event above the decoder's
 * limit: an incomplete message must not be taken for a complete one.
 */
export async function* postForEvents(
  url: string,
  headers: Readonly<Record<string, string>>,
  request: JsonObject,
  signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  const response = await post(new URL(url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(request),
    redirect: 'manual',
    signal,
  });
  if (!response.ok || !response.body) {
    const header = (name: string): string | null => response.headers.get(name);
    throw httpStatusError(response.status, await startOf(response), header);
  }
  const decoder = new SseDecoder();
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    for (const event of decoder.decode(chunk)) {
      if (event instanceof InvalidLine) throw event.error;
      yield event.data;
    }
  }
}

/**
 * Sends the request, and again to where the same origin redirects it. Throws `invalid` for another
 * origin: it would get the conversation, and the key in a header that `fetch` does not remove.
 */
async function post(url: URL, init: RequestInit): Promise<Response> {
  for (let [at, hops] = [url, 0]; ; hops += 1) {
    const response = await fetch(at, init);
    const location = response.headers.get('location');
    if ((response.status !== 307 && response.status !== 308) || location === null) return response;
    await response.body?.cancel();
    at = new URL(location, at);
    if (at.origin !== url.origin || hops === MAX_REDIRECTS)
      throw new DuolaneError(
        'invalid',
        `cannot follow the redirect of ${url.origin}: it leads to ${at.origin}; use that address as the base URL`,
        { retryable: false },
      );
  }
}

/** The start of the body of an error. The rest is not read: it may have no end. */
async function startOf({ body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > MAX_ERROR_CHARS) break;
  }
  return text.slice(0, MAX_ERROR_CHARS);
}
