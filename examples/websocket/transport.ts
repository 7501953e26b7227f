import type { MessageTransport } from 'duolane/mcp';
import { Channel } from 'duolane/stream';

type JsonObject = Readonly<Record<string, unknown>>;

/** What the transport uses of a socket of the package `ws`. */
export interface Socket {
  readonly readyState: number;
  send(text: string, done: (error?: Error) => void): void;
  pause(): void;
  resume(): void;
  close(code?: number, reason?: string): void;
  terminate(): void;
  on(event: 'message', listener: (data: unknown) => void): unknown;
  on(event: 'close' | 'error', listener: () => void): unknown;
}

const CLOSED = 3;
/** How many messages wait for their reader before the socket is paused. */
const WAITING = 64;

/**
 * A WebSocket as a transport for MCP: one JSON-RPC message in each text frame. A slow reader pauses
 * the socket, and `send` resolves when the bytes have left, so neither side fills its memory. The
 * limit of a message is the option `maxPayload` of the socket.
 */
export function webSocketTransport(socket: Socket): MessageTransport {
  const incoming = new Channel<JsonObject>({ capacity: WAITING });
  const closed = new Promise<void>((resolve) => {
    socket.on('close', () => {
      incoming.close();
      resolve();
    });
  });
  socket.on('message', (data) => {
    const message = parse(String(data));
    if (!message) return socket.close(1007, 'expected a JSON object');
    socket.pause();
    incoming.push(message).then(
      () => socket.resume(),
      () => socket.close(), // the reader has gone, so no one needs the connection
    );
  });
  socket.on('error', () => socket.terminate()); // `close` follows
  return {
    incoming,
    send: (message) =>
      new Promise((resolve, reject) => {
        socket.send(JSON.stringify(message), (error) => (error ? reject(error) : resolve()));
      }),
    async close() {
      if (socket.readyState === CLOSED) return;
      socket.resume(); // a paused socket does not receive the end of the connection
      socket.close();
      await closed;
    },
  };
}

function parse(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? (value as JsonObject) : undefined;
  } catch {
    return undefined; // the caller closes the connection with the reason
  }
}
