import type { JsonObject } from '../../../json.ts';
import { DuolaneError } from '../../../errors.ts';
import { disposeOnce } from '../../../stream/dispose-once.ts';
import { reportUnexpected } from '../../../stream/report-unexpected.ts';
import { isRpcRequest, isRpcId, unwritable } from '../../../wire/json-rpc.ts';
import type {
  MessageEndpoint,
  MessageTransport,
  OfferMessagesOptions,
  ToolSource,
} from '../../types.ts';
import { offerMessages } from './offer-messages.ts';

/** A source being served to one client. */
export interface ServedMessages extends AsyncDisposable, Pick<MessageEndpoint, 'request'> {
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
): ServedMessages {
  const end = offerMessages(source, options);
  const writing = writeAll(end, transport);
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
async function readAll(end: MessageEndpoint, transport: MessageTransport): Promise<void> {
  const answer = async (message: JsonObject): Promise<void> => {
    const response = await end.receive(message);
    if (!response) return;
    try {
      await transport.send(response);
    } catch {
      // The road may refuse only this response, because it cannot be written; then the client gets
      // an error. A road that is gone refuses that, too.
      const { id } = response;
      await transport.send(unwritable(isRpcId(id) ? id : null));
    }
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

async function writeAll(end: MessageEndpoint, transport: MessageTransport): Promise<void> {
  try {
    await sendOutgoing(end, (message) => transport.send(message));
  } catch {
    // As above: leaving the loop is what tells the handlers that nobody reads.
  }
}

/**
 * Sends what an end says unasked. A message that cannot be written as JSON is left out with a
 * warning of the process and ends nothing else; if it is a request, the end gets an error for it.
 */
export async function sendOutgoing(
  end: MessageEndpoint,
  send: (message: JsonObject) => Promise<void>,
): Promise<void> {
  for await (const message of end.outgoing) {
    try {
      await send(message);
    } catch (error) {
      if (!(error instanceof DuolaneError && error.code === 'invalid')) throw error;
      reportUnexpected(error);
      if (isRpcRequest(message)) await end.receive(unwritable(message.id));
    }
  }
}
