import { InvalidLine } from '../../wire/jsonl.ts';
import { SseDecoder } from '../../wire/sse.ts';

/**
 * The `data` of each event in the body of a model's answer. Reads to the end, so that the connection
 * can be used again; leaving the loop cancels the body. An event beyond the decoder's limit throws
 * `too_large`: half an answer must not pass for a whole one.
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
