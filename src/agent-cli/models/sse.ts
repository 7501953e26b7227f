import { httpStatusError } from '../../event/retry/model-error.ts';
import type { JsonObject } from '../../json.ts';
import { InvalidLine } from '../../wire/jsonl.ts';
import { SseDecoder } from '../../wire/sse.ts';

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
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(request),
    signal,
  });
  if (!response.ok || !response.body) {
    const header = (name: string): string | null => response.headers.get(name);
    throw httpStatusError(response.status, await response.text(), header);
  }
  const decoder = new SseDecoder();
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    for (const event of decoder.decode(chunk)) {
      if (event instanceof InvalidLine) throw event.error;
      yield event.data;
    }
  }
}
