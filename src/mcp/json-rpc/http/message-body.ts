import type { LightResponse } from '../../../http/light-fetch.ts';
import { readBodyText } from '../../../http/read-body.ts';
import { DuolaneError } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';
import { InvalidLine } from '../../../wire/jsonl.ts';
import { SseDecoder, type SseMessage } from '../../../wire/sse.ts';

/** The largest body of one message, as for one line or one event. */
const MAX_BYTES = 64 * 1024 * 1024;

export const mediaType = (message: Pick<LightResponse, 'headers'>): string =>
  (message.headers.get('content-type') ?? '').split(';', 1)[0]!.trim().toLowerCase();

/** The messages in a JSON body: one, or several in a list as the revision 2025-03-26 allowed. */
export async function jsonMessages(response: LightResponse): Promise<readonly JsonObject[]> {
  const value = parse(await readText(response, MAX_BYTES));
  const messages = Array.isArray(value) ? value : [value];
  if (!messages.every(isObject)) throw malformed('a body that is no message');
  return messages;
}

/** A whole body as text; `too_large` beyond the limit, and the rest is not read. */
export function readText(message: Request | LightResponse, maxBytes: number): Promise<string> {
  const tooLarge = (): DuolaneError =>
    new DuolaneError('too_large', `a body is over the limit of ${maxBytes} bytes`);
  return readBodyText(message, maxBytes, tooLarge);
}

/** The events of a body, as they come. A broken connection throws `network`. */
export async function* sseEvents(
  response: LightResponse,
  decoder: SseDecoder,
): AsyncGenerator<SseMessage, void, undefined> {
  const body = (response.body ?? []) as AsyncIterable<Uint8Array>;
  try {
    for await (const chunk of body) {
      for (const event of decoder.decode(chunk)) {
        // What was dropped may have been a response: its caller would wait for it for ever.
        if (event instanceof InvalidLine) throw event.error;
        yield event;
      }
      // An event over the limit that never ends would be read for ever.
      if (decoder.oversized)
        throw new DuolaneError('too_large', 'an event of the tool server exceeds the size limit');
    }
  } catch (error) {
    throw DuolaneError.from(error, 'network');
  }
}

/** The answer to one request, wherever in the response it stands. */
export async function answerIn(response: LightResponse, id: string): Promise<JsonObject> {
  const isAnswer = (message: JsonObject | undefined): boolean => message?.['id'] === id;
  if (mediaType(response) !== 'text/event-stream')
    return (await jsonMessages(response)).find(isAnswer) ?? {};
  for await (const event of sseEvents(response, new SseDecoder())) {
    const message = messageIn(event);
    if (message && isAnswer(message)) return message;
  }
  return {};
}

/** The message in an event; undefined for one without data, which only carries an id. */
export function messageIn({ event, data }: SseMessage): JsonObject | undefined {
  if (event !== 'message' || data === '') return undefined;
  const value = parse(data);
  if (!isObject(value)) throw malformed('an event that is no message');
  return value;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw malformed('text that is no JSON', cause);
  }
}

const malformed = (what: string, cause?: unknown): DuolaneError =>
  new DuolaneError('malformed', `the tool server sent ${what}`, { cause });
