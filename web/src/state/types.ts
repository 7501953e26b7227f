/** The state of the stream that the page reads a task from. */
export type ConnectionState =
  | 'opening'
  | 'live'
  /** Open, but the server has sent nothing for longer than its heartbeat. */
  | 'silent'
  | 'lost'
  | 'failed'
  | 'disconnected'
  | 'ended'
  | 'gone';

/** A time without a connection, on the clock of the server. */
export interface ConnectionCut {
  readonly from: number;
  readonly to?: number;
  readonly byUser: boolean;
  /** How many entries the reconnect had to catch up with. */
  readonly replayed?: number;
  /** How many of those did not come; undefined until all should have come. */
  readonly lost?: number;
}
