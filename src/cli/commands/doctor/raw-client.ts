import { randomUUID } from 'node:crypto';
import type { Interface } from '../../../a2a/client/choose-interface.ts';
import { DuolaneError } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';
import { InvalidLine, SseDecoder } from '../../../wire/index.ts';
import type { StreamRecord } from '../../../trace/index.ts';

/** The events of one stream, unchanged. */
export interface ReceivedStream {
  readonly headers: Headers;
  readonly sentAt: number;
  readonly records: readonly (StreamRecord & { readonly at: number })[];
  /** The longest time without a byte. */
  readonly silentMs: number;
}

const METHODS = {
  '0.3': { stream: 'message/stream', get: 'tasks/get', subscribe: 'tasks/resubscribe' },
  '1.0': { stream: 'SendStreamingMessage', get: 'GetTask', subscribe: 'SubscribeToTask' },
} as const;

/**
 * Sends raw requests to a server: our client would repair the faults that the doctor looks for.
 * Requests have the ids 1, 2, …
 */
export class RawClient {
  readonly #target: Interface;
  readonly #headers: Readonly<Record<string, string>>;
  #ids = 0;

  constructor(target: Interface, headers: Readonly<Record<string, string>>) {
    this.#target = target;
    this.#headers = headers;
  }

  get lastId(): number {
    return this.#ids;
  }

  message(text: string): JsonObject {
    const parts = this.#target.version === '1.0' ? [{ text }] : [{ kind: 'text', text }];
    const role = this.#target.version === '1.0' ? 'ROLE_USER' : 'user';
    const kind = this.#target.version === '1.0' ? {} : { kind: 'message' };
    return { message: { ...kind, messageId: randomUUID(), role, parts } };
  }

  /** The response to a unary request. */
  async call(operation: 'get', params: JsonObject, signal: AbortSignal): Promise<JsonObject> {
    const response = await this.#post(operation, params, {}, signal);
    // A body that is not JSON is reported as an empty response.
    const body: unknown = await response.json().catch(() => undefined);
    return isObject(body) ? body : {};
  }

  /** Reads a stream to its end, or until it has `limit` events. */
  async listen(
    operation: 'stream' | 'subscribe',
    params: JsonObject,
    options: { readonly signal: AbortSignal; readonly limit?: number; readonly after?: string },
  ): Promise<ReceivedStream> {
    const { signal, limit = Infinity, after } = options;
    const disconnect = new AbortController();
    const headers: Record<string, string> = after === undefined ? {} : { 'last-event-id': after };
    const sentAt = Date.now();
    const response = await this.#post(
      operation,
      params,
      headers,
      AbortSignal.any([signal, disconnect.signal]),
    );
    const records: (StreamRecord & { readonly at: number })[] = [];
    let silentMs = 0;
    let receivedAt = sentAt;
    if (!/^text\/event-stream/i.test(response.headers.get('content-type') ?? '')) {
      records.push({ data: await response.text(), at: Date.now() });
      return { headers: response.headers, sentAt, records, silentMs };
    }
    const decoder = new SseDecoder();
    let id = '';
    try {
      for await (const chunk of response.body ?? []) {
        const at = Date.now();
        silentMs = Math.max(silentMs, at - receivedAt);
        receivedAt = at;
        for (const event of decoder.decode(chunk)) {
          if (event instanceof InvalidLine) continue;
          // An event without an id inherits the last one, so only a new id belongs to this event.
          const own = event.lastEventId !== id;
          id = event.lastEventId;
          records.push({ data: event.data, at, ...(own && { id }) });
        }
        if (records.length >= limit) break;
      }
    } catch (cause) {
      // A broken connection counts as a closed stream; the rules report what is missing.
      if (signal.aborted) throw tooLong(signal, cause);
    } finally {
      disconnect.abort();
    }
    return { headers: response.headers, sentAt, records: records.slice(0, limit), silentMs };
  }

  async #post(
    operation: keyof (typeof METHODS)['0.3'],
    params: JsonObject,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Response> {
    const { url, version } = this.#target;
    this.#ids += 1;
    try {
      return await fetch(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: operation === 'get' ? 'application/json' : 'text/event-stream',
          'a2a-version': version,
          ...this.#headers,
          ...headers,
        },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: this.#ids,
          method: METHODS[version][operation],
          params,
        }),
        signal,
      });
    } catch (cause) {
      if (signal.aborted) throw tooLong(signal, cause);
      throw new DuolaneError('network', `cannot reach ${url}`, { cause });
    }
  }
}

const tooLong = ({ reason }: AbortSignal, cause: unknown): DuolaneError =>
  reason instanceof DuolaneError
    ? reason
    : new DuolaneError('timeout', 'the run exceeds --timeout; increase it to wait longer', {
        cause,
      });
