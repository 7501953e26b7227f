import type { Lane, TraceSpan } from './span-board.ts';

/** One row of the event list. A block of text is one row, which grows with each delta. */
export interface TimelineRow {
  readonly kind:
    | 'user'
    | 'question'
    | 'answer'
    | 'text'
    | 'reasoning'
    | 'note'
    | 'call'
    | 'result'
    | 'control'
    | 'end';
  readonly seq: number;
  readonly at: number;
  text: string;
  /** The block is open: more deltas may follow. */
  growing?: boolean;
  readonly tone?: 'warn' | 'bad';
  /** A retry discarded it. */
  void?: true;
  /** The path of the sub-agent that it comes from. */
  readonly path?: readonly string[];
  /** The text, call, request or wait that this row begins or ends. */
  readonly span?: TraceSpan;
  /** Who sent the message or gave the answer, if the server knows the owner. */
  readonly by?: string;
  /** The entry in the log; a block of deltas has no single entry. */
  readonly raw?: unknown;
}

/** A moment that the waterfall marks with a line over both lanes. */
export interface TimeMarker {
  readonly kind: 'turn' | 'first-token' | 'retry' | 'cancel' | 'attempt' | 'end';
  readonly at: number;
  readonly seq: number;
  readonly label: string;
}

/** The lane in which a row is shown. */
export const laneOf = ({ kind }: TimelineRow): Lane =>
  kind === 'call' || kind === 'result' || kind === 'control' || kind === 'question'
    ? 'control'
    : 'message';
