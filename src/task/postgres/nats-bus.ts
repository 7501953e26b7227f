import type { WakeupBus } from './wakeup-bus.ts';

/** What we use of a `NatsConnection` of the packages `@nats-io/transport-node` or `nats`. */
export interface NatsConnectionLike {
  publish(subject: string, payload: string): void;
  subscribe(subject: string): AsyncIterable<{ string(): string }> & { unsubscribe(): void };
  status(): AsyncIterable<{ readonly type: string }>;
}

export interface NatsBusOptions {
  /** Connected, and closed by whoever made it; let it reconnect for ever (`maxReconnectAttempts: -1`). */
  readonly connection: NatsConnectionLike;
  /** All replicas of one log share a subject, and no other log does. */
  readonly subject?: string;
}

/**
 * Wake-ups over NATS core, for more commits a second than NOTIFY carries. Nothing is stored there:
 * what is lost while NATS is away is found by looking.
 */
export function natsBus({ connection, subject = 'duolane' }: NatsBusOptions): WakeupBus {
  let stop = (): void => {};
  return {
    publish(text) {
      try {
        connection.publish(subject, text);
      } catch {
        // Closed or draining: the others look for themselves.
      }
    },
    subscribe(listener) {
      const messages = connection.subscribe(subject);
      let left = false;
      const hear = async (): Promise<void> => {
        for await (const message of messages) listener.message(message.string());
      };
      const watch = async (): Promise<void> => {
        for await (const { type } of connection.status()) {
          if (left) return;
          if (type === 'reconnect') listener.gap();
        }
      };
      stop = () => {
        left = true;
        messages.unsubscribe();
      };
      listener.gap();
      // Both end with the connection; from then on the log polls.
      hear().catch(() => {});
      // Ends with the connection; from then on the log polls.
      watch().catch(() => {});
    },
    async [Symbol.asyncDispose]() {
      stop();
    },
  };
}
