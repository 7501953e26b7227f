import { MessageChannel, type MessagePort } from 'node:worker_threads';

let sink: MessagePort | undefined;

/**
 * Frees the memory of a chunk immediately. Node reads every 64 KB of a pipe into memory outside of
 * the heap, so the garbage collector sees no pressure and lets tens of megabytes accumulate.
 * Transferring the memory to a port whose other side is closed frees it. A chunk that shares its
 * memory is kept.
 */
export function freeChunk({ buffer, byteLength }: Uint8Array): void {
  if (buffer.byteLength !== byteLength || !(buffer instanceof ArrayBuffer)) return;
  sink ??= closedPort();
  sink.postMessage(null, [buffer]);
}

function closedPort(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  port2.close();
  return port1;
}
