import type { Logger } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import type { ControlLink } from '../../wire/control-link.ts';
import type { PipeWriter } from '../frames/pipe-writer.ts';

const UNACKNOWLEDGED = 1000;

/**
 * Sends a message of an in-process server to the CLI; resolves when the pipe has room. It does not
 * wait for the acknowledgement, so that a stream of progress messages is not slowed down. A CLI
 * that acknowledges none gets no more than `UNACKNOWLEDGED`, because each keeps memory until its
 * response.
 */
export async function relayMessage(
  link: ControlLink,
  writer: PipeWriter,
  logger: Logger,
  server: string,
  message: JsonObject,
): Promise<void> {
  if (writer.ended) return;
  if (link.asking >= UNACKNOWLEDGED)
    return logger.warn('dropped a server message: the CLI acknowledges none', { server });
  const request = { subtype: 'mcp_message', server_name: server, message };
  link.exchange(request, { hold: false }).catch((error: unknown) => {
    logger.debug('the CLI rejected a server message', { server, error: String(error) });
  });
  await writer.room().catch(() => {}); // a closed pipe is reported by the session
}
