import type { WakeupBus } from './wakeup-bus.ts';

/** The part of a `NatsConnection` (packages `@nats-io/transport-node` or `nats`) that we use. */
export interface NatsConnectionLike {
  publish(subject: string, payload: string): void;
  subscribe(subject: string): AsyncIterable<{ string(): string }> & { unsubscribe(): void };
  status(): AsyncIterable<{ readonly type: string }>;
}

export interface NatsBusOptions {
  /** A connection that the caller closes. Let it reconnect forever (`maxReconnectAttempts: -1`). */
  readonly connection: NatsConnectionLike;
  /**
   * The subject that all replicas of one log share, and no other log uses; `duolane` by default.
   */
  readonly subject?: string;
}

/**
 * Creates a bus over NATS core, for more commits a second than NOTIFY carries. NATS stores nothing:
 * a replica that misses a message finds the commit by polling.
 */
export function natsBus({ connection, subject = 'duolane' }: NatsBusOptions): WakeupBus {
  let stop = (): void => {};
  return {
    publish(text) {
      try {
        connection.publish(subject, text);
      } catch {
        // The connection is closed or draining: the other replicas poll.
      }
    },
    subscribe(listener) {
      const messages = connection.subscribe(subject);
      let stopped = false;
      const receive = async (): Promise<void> => {
        for await (const message of messages) listener.message(message.string());
      };
      const watch = async (): Promise<void> => {
        for await (const { type } of connection.status()) {
          if (stopped) return;
          if (type === 'reconnect') listener.gap();
        }
      };
      stop = () => {
        stopped = true;
        messages.unsubscribe();
      };
      listener.gap();
      // Both loops end with the connection; from then on the log polls.
      receive().catch(() => {});
      // See above.
      watch().catch(() => {});
    },
    async [Symbol.asyncDispose]() {
      stop();
    },
  };
}
