import { InvalidLine } from '../../wire/jsonl.ts';
import { SseDecoder } from '../../wire/sse.ts';

/**
 * The `data` of each event in a response body. Reads the body to its end, so that the connection
 * can be reused; breaking out of the loop cancels the body. Throws `too_large` for an event above
 * the decoder's limit: an incomplete message must not be taken for a complete one.
 */
export async function* sseData(
  body: AsyncIterable<Uint8Array>,
): AsyncGenerator<string, void, undefined> {
  const decoder = new SseDecoder();
  for await (const chunk of body) {
    for (const event of decoder.decode(chunk)) {
      if (event instanceof InvalidLine) throw event.error;
      yield event.data;
    }
  }
}
