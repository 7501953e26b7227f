import type { Logger } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import type { ControlLink } from './control-link.ts';
import type { PipeWriter } from '../frames/pipe-writer.ts';

const UNACKNOWLEDGED = 1000;

/**
 * Sends a message of an in-process server to the CLI; resolves when the pipe has room. Nothing waits
 * for the acknowledgement, but a CLI that acknowledges none gets no more of them.
 */
export async function relayMessage(
  dialogue: ControlLink,
  writer: PipeWriter,
  logger: Logger,
  server: string,
  message: JsonObject,
): Promise<void> {
  if (writer.ended) return;
  if (dialogue.asking >= UNACKNOWLEDGED)
    return logger.warn('a server message was dropped: none is acknowledged', { server });
  const fields = { server_name: server, message };
  dialogue.request('mcp_message', fields, { hold: false }).catch((error: unknown) => {
    logger.debug('a server message was refused', { server, error: String(error) });
  });
  await writer.room().catch(() => {}); // reported where answers are lost
}
