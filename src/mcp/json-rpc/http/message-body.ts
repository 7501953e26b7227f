import type { LightResponse } from '../../../http/light-fetch.ts';
import { readBodyText } from '../../../http/read-body.ts';
import { DuolaneError, malformed, tooLarge } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';
import { InvalidLine } from '../../../wire/jsonl.ts';
import { SseDecoder, type SseMessage } from '../../../wire/sse.ts';

/** The size limit of one message body, the same as that of a line or an event. */
const MAX_BYTES = 64 * 1024 * 1024;

/** The media type of a message, without parameters. */
export const mediaType = (message: Pick<LightResponse, 'headers'>): string =>
  (message.headers.get('content-type') ?? '').split(';', 1)[0]!.trim().toLowerCase();

/**
 * Reads the messages in a JSON body: one, or several in an array as the revision 2025-03-26
 * allowed. A broken connection throws `network`.
 */
export async function jsonMessages(response: LightResponse): Promise<readonly JsonObject[]> {
  const text = await readText(response, MAX_BYTES).catch((error: unknown) => {
    throw DuolaneError.from(error, 'network');
  });
  return messagesOf(text, 'body');
}

function messagesOf(text: string, place: string): readonly JsonObject[] {
  const value = parse(text);
  const messages: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (!messages.every(isObject))
    throw malformedBody(`an invalid ${place}: expected a JSON-RPC message`);
  return messages;
}

/** Reads a body as text. Throws `too_large` beyond the limit without reading the rest. */
export function readText(message: Request | LightResponse, maxBytes: number): Promise<string> {
  return readBodyText(message, maxBytes, () =>
    tooLarge(`the body exceeds the limit of ${maxBytes} bytes; send less`),
  );
}

/** Yields the events of a body as they arrive. A broken connection throws `network`. */
export async function* sseEvents(
  response: LightResponse,
  decoder: SseDecoder,
): AsyncGenerator<SseMessage, void, undefined> {
  const body = (response.body ?? []) as AsyncIterable<Uint8Array>;
  try {
    for await (const chunk of body) {
      for (const event of decoder.decode(chunk)) {
        // The dropped event may have been a response, whose caller would wait forever.
        if (event instanceof InvalidLine) throw event.error;
        yield event;
      }
      // An event over the limit that never ends would be read forever.
      if (decoder.oversized)
        throw tooLarge(
          'an event of the tool server exceeds the size limit; it is not read further',
        );
    }
  } catch (error) {
    throw DuolaneError.from(error, 'network');
  }
}

/** Finds the response to one request in a body of either type; an empty object without one. */
export async function answerIn(response: LightResponse, id: string): Promise<JsonObject> {
  const isAnswer = (message: JsonObject): boolean => message['id'] === id;
  if (mediaType(response) !== 'text/event-stream')
    return (await jsonMessages(response)).find(isAnswer) ?? {};
  for await (const event of sseEvents(response, new SseDecoder())) {
    const answer = messagesIn(event).find(isAnswer);
    if (answer) return answer;
  }
  return {};
}

/**
 * Decodes the messages in an event: none without data, which only carries an id, and several in an
 * array as the revision 2025-03-26 allowed.
 */
export const messagesIn = ({ event, data }: SseMessage): readonly JsonObject[] =>
  event !== 'message' || data === '' ? [] : messagesOf(data, 'event');

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw malformedBody('invalid text: expected JSON', cause);
  }
}

const malformedBody = (what: string, cause?: unknown): DuolaneError =>
  malformed(`the tool server sent ${what}`, cause);
