import type { JsonObject } from '../../../json.ts';
import { disposeOnce } from '../../../stream/dispose-once.ts';
import type {
  MessageEnd,
  MessageTransport,
  OfferMessagesOptions,
  ToolSource,
} from '../../types.ts';
import { offerMessages } from './offer-messages.ts';

/** A source being served to one client. */
export interface Serving extends AsyncDisposable, Pick<MessageEnd, 'request'> {
  /** Resolves when the client has gone and all its calls have ended; never rejects. */
  readonly done: Promise<void>;
}

/**
 * Serves a source to the one client at the other end of a road, until the road ends or this is
 * disposed, which closes the road. The source is shared and stays open.
 */
export function serveMessages(
  source: ToolSource,
  transport: MessageTransport,
  options?: OfferMessagesOptions,
): Serving {
  const end = offerMessages(source, options);
  const writing = writeAll(end.outgoing, transport);
  const done = readAll(end, transport).then(() => writing);
  return {
    done,
    request: (method, params, requesting) => end.request(method, params, requesting),
    [Symbol.asyncDispose]: disposeOnce(async () => {
      await end[Symbol.asyncDispose]();
      await transport.close?.();
      // A road that cannot be closed may stay silent for ever.
      if (transport.close) await done;
    }),
  };
}

/** Messages are taken as they come, whatever runs: a cancel must not queue behind its call. */
async function readAll(end: MessageEnd, transport: MessageTransport): Promise<void> {
  const answer = async (message: JsonObject): Promise<void> => {
    const response = await end.receive(message);
    if (response) await transport.send(response);
  };
  try {
    // A client that cannot be answered any more has gone, and reading ends with that.
    for await (const message of transport.incoming) answer(message).catch(() => {});
  } catch {
    // However the road broke, what is left to do is the same as at its end.
  } finally {
    await end[Symbol.asyncDispose]();
  }
}

async function writeAll(
  outgoing: AsyncIterable<JsonObject>,
  transport: MessageTransport,
): Promise<void> {
  try {
    for await (const message of outgoing) await transport.send(message);
  } catch {
    // As above: leaving the loop is what tells the handlers that nobody reads.
  }
}
