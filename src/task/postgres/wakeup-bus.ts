/** Receives the messages of a bus. Its methods must not throw. */
export interface WakeupListener {
  message(text: string): void;
  /** Called after every connect, including the first: messages may have been missed. */
  gap(): void;
}

/**
 * Carries wake-ups between replicas, never data: a replica that gets one reads the log. So a bus
 * may lose, repeat and delay messages; replicas also poll every few seconds.
 */
export interface WakeupBus extends AsyncDisposable {
  /** Sends to every subscriber, including this process. Does not wait and does not throw. */
  publish(text: string): void;
  /** Listens until disposed, through every loss of the connection. Takes one listener. */
  subscribe(listener: WakeupListener): void;
}
