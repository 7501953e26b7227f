import type { JsonObject } from '../../../src/json.ts';
import type { MessageEndpoint } from '../../../src/mcp/types.ts';
import type { RpcId } from '../../../src/wire/json-rpc.ts';

export const send = (
  end: MessageEndpoint,
  method: string,
  params?: JsonObject,
  id: RpcId = 1,
): Promise<JsonObject | undefined> =>
  end.receive({ jsonrpc: '2.0', id, method, ...(params && { params }) });

export const notify = (
  end: MessageEndpoint,
  method: string,
  params?: JsonObject,
): Promise<unknown> => end.receive({ jsonrpc: '2.0', method, ...(params && { params }) });

/** Reads `outgoing` to its end; `waitFor` returns the first message with this method. */
export function reader(end: MessageEndpoint): {
  readonly seen: JsonObject[];
  readonly waitFor: (method: string) => Promise<JsonObject>;
} {
  const seen: JsonObject[] = [];
  const waiting: Array<() => void> = [];
  void (async () => {
    for await (const message of end.outgoing) {
      seen.push(message);
      for (const wake of waiting.splice(0)) wake();
    }
  })();
  return {
    seen,
    async waitFor(method) {
      for (;;) {
        const found = seen.find((message) => message['method'] === method);
        if (found) return found;
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
    },
  };
}

export const HELLO: JsonObject = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'c' },
};
