import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isObject, type JsonObject } from '../../../json.ts';
import { disposeOnce } from '../../../stream/dispose-once.ts';
import { InvalidLine, SseDecoder } from '../../../wire/index.ts';

export interface NaiveServer extends AsyncDisposable {
  readonly url: string;
}

/** A simple server on loopback. */
export async function naiveServer(listener: RequestListener): Promise<NaiveServer> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: disposeOnce(async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    }),
  };
}

/** The `data` of each event of a stream, until it closes or the reader stops. */
export async function* events(
  url: string,
  init: RequestInit,
  signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  const disconnect = new AbortController();
  const either = AbortSignal.any([signal, disconnect.signal]);
  const response = await fetch(url, { ...init, signal: either });
  const decoder = new SseDecoder();
  try {
    for await (const chunk of response.body ?? []) {
      for (const event of decoder.decode(chunk))
        if (!(event instanceof InvalidLine)) yield event.data;
    }
  } finally {
    disconnect.abort();
  }
}

/** A request of A2A 0.3 for a stream. */
export const streamRequest = (text: string): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'message/stream',
    params: {
      message: {
        kind: 'message',
        messageId: crypto.randomUUID(),
        role: 'user',
        parts: [{ kind: 'text', text }],
      },
    },
  }),
});

/** An event of A2A 0.3 on its `data` line. */
export const eventLine = (result: JsonObject): string =>
  `data: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result })}\n\n`;

/** A label of an event, such as `task submitted` or `status-update working`. */
export function eventLabel(data: string): string {
  const { result } = JSON.parse(data) as { readonly result?: unknown };
  if (!isObject(result)) return data;
  const status = isObject(result['status']) ? String(result['status']['state']) : '';
  return `${String(result['kind'])} ${status}`.trimEnd();
}
