import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { isRpcId, isRpcRequest, unwritable } from '../../wire/json-rpc.ts';
import type { MessageEndpoint, MessageTransport } from '../types.ts';

/** A source that is served to one client. */
export interface ServedMessages extends AsyncDisposable, Pick<MessageEndpoint, 'request'> {
  /** Resolves when the client has disconnected and all its calls have ended; never rejects. */
  readonly done: Promise<void>;
}

/**
 * Connects an endpoint and the client at the peer of a transport, until the transport ends, the
 * endpoint ends, or this is disposed, which closes the transport.
 */
export function serveEndpoint(end: MessageEndpoint, transport: MessageTransport): ServedMessages {
  const writing = writeAll(end, transport);
  const done = readAll(end, transport).then(() => writing);
  return {
    done,
    request: (method, params, requesting) => end.request(method, params, requesting),
    [Symbol.asyncDispose]: disposeOnce(async () => {
      await end[Symbol.asyncDispose]();
      await transport.close?.();
      // A transport that cannot be closed may never end, so its end is not awaited.
      if (transport.close) await done;
    }),
  };
}

/**
 * Handles messages as they arrive, without waiting for running requests: a cancellation must not
 * queue behind its call.
 */
async function readAll(end: MessageEndpoint, transport: MessageTransport): Promise<void> {
  const { owner, relates } = transport;
  const answer = async (message: JsonObject): Promise<void> => {
    if (!isRpcRequest(message)) {
      await end.receive(message);
      return transport.handled?.(message);
    }
    const request = message.id;
    const related = (sent: JsonObject): Promise<void> => transport.send(sent, { request });
    const response = await end.receive(message, { owner, ...(relates && { related }) });
    if (!response) return;
    try {
      await transport.send(response);
    } catch {
      // The transport may refuse only this response, because it cannot be encoded; then the client
      // gets an error. A closed transport refuses that, too.
      const { id } = response;
      await transport.send(unwritable(isRpcId(id) ? id : null));
    }
  };
  try {
    // If the client cannot receive responses any more, it has disconnected, and the loop ends with
    // that.
    for await (const message of transport.incoming) answer(message).catch(() => {});
  } catch {
    // A failure of the transport is handled like its end.
  } finally {
    await end[Symbol.asyncDispose]();
  }
}

async function writeAll(end: MessageEndpoint, transport: MessageTransport): Promise<void> {
  try {
    await sendOutgoing(end, (message) => transport.send(message));
    // An endpoint that ends by itself has lost its server: the client gets the end of the
    // connection, as if it were connected to that server.
    await transport.close?.();
  } catch {
    // As above. Leaving the loop shows the outbox that its reader has gone.
  }
}

/**
 * Sends the messages that an endpoint sends on its own. A message that cannot be encoded as JSON is
 * dropped with a process warning; if it is a request, the endpoint gets an error response.
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
