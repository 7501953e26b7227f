import { MessageChannel, type MessagePort } from 'node:worker_threads';

let nowhere: MessagePort | undefined;

/**
 * Frees the memory of a chunk now. Node reads every 64 KB of a pipe into memory of its own, which
 * costs the heap nothing, so the collector lets tens of megabytes of it pile up. Handing it over to
 * a port that nobody holds the other end of frees it. A chunk that shares its memory is left alone.
 */
export function freeChunk({ buffer, byteLength }: Uint8Array): void {
  if (buffer.byteLength !== byteLength || !(buffer instanceof ArrayBuffer)) return;
  nowhere ??= closedPort();
  nowhere.postMessage(null, [buffer]);
}

function closedPort(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  port2.close();
  return port1;
}
