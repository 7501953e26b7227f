/** What arrives over a bus. Neither may throw. */
export interface BusListener {
  message(text: string): void;
  /** Messages may have been missed: called after every connect, the first one included. */
  gap(): void;
}

/**
 * Carries wake-ups between replicas, never data: who hears one reads the log. So a bus may lose,
 * double and delay messages; replicas also look for themselves every few seconds.
 */
export interface WakeupBus extends AsyncDisposable {
  /** Sends to every subscriber, this process included. Best effort: does not wait and does not throw. */
  publish(text: string): void;
  /** Begins to listen, and goes on through every loss of the connection until disposed. One listener. */
  subscribe(listener: BusListener): void;
}
