import type { Frame } from '../../../src/event/types.ts';

export type Lane = 'message' | 'control';

/** What has a beginning and an end: a block of text, a tool call, a control request, a wait. */
export interface TraceSpan {
  readonly kind: 'text' | 'reasoning' | 'call' | 'exchange' | 'wait' | 'pause';
  readonly id: string;
  readonly name: string;
  /** The row that begins it. */
  readonly from: number;
  /** The row that ends it. */
  to?: number;
  readonly startedAt: number;
  endedAt?: number;
  /**
   * `unanswered`: its run ended before the result. `lost`: the response could not be written.
   * `void`: a retry discarded it.
   */
  state: 'open' | 'answered' | 'failed' | 'unanswered' | 'lost' | 'void';
  args?: unknown;
  output?: unknown;
  progress?: { readonly message?: string; readonly done?: number; readonly total?: number };
  /** The position among spans of its group that overlap. */
  readonly track: number;
  readonly group: SpanGroup;
  readonly frames: Frame[];
}

/** The spans of one lane that belong together: of the agent, of a sub-agent, of the protocol. */
export interface SpanGroup {
  readonly lane: Lane;
  readonly kind: 'text' | 'calls' | 'requests' | 'waits';
  /** The path of the sub-agent; empty for the agent itself. */
  readonly path: readonly string[];
  /** For each track its spans, in the order of their starts. They do not overlap. */
  readonly tracks: TraceSpan[][];
  readonly taken: Set<number>;
}

const LANES: Readonly<Record<TraceSpan['kind'], readonly [Lane, SpanGroup['kind']]>> = {
  text: ['message', 'text'],
  reasoning: ['message', 'text'],
  call: ['control', 'calls'],
  exchange: ['control', 'requests'],
  wait: ['control', 'waits'],
  pause: ['control', 'waits'],
};

/** The first position in each lane; groups of sub-agents follow their parent. */
const ORDER: Readonly<Record<SpanGroup['kind'], number>> = {
  text: 0,
  calls: 1,
  waits: 2,
  requests: 3,
};

export interface NewTraceSpan {
  readonly kind: TraceSpan['kind'];
  readonly id: string;
  readonly name: string;
  readonly at: number;
  /** The row that begins it. */
  readonly row: number;
  readonly path?: readonly string[] | undefined;
}

/**
 * All spans of a task, sorted into groups and tracks. A track is occupied from the start of a span
 * to its end, so spans that overlap in time are drawn beside each other.
 */
export class SpanBoard {
  readonly all: TraceSpan[] = [];
  #groups = new Map<string, SpanGroup>();
  #sorted: readonly SpanGroup[] | undefined;

  /** The groups from top to bottom: the message lane, then the control lane. */
  get groups(): readonly SpanGroup[] {
    this.#sorted ??= [...this.#groups.values()].toSorted(
      (a, b) => ORDER[a.kind] - ORDER[b.kind] || (a.path.join('\n') < b.path.join('\n') ? -1 : 1),
    );
    return this.#sorted;
  }

  open({ kind, id, name, at, row, path = [] }: NewTraceSpan): TraceSpan {
    const group = this.#group(kind, path);
    let track = 0;
    while (group.taken.has(track)) track++;
    group.taken.add(track);
    const span: TraceSpan = {
      kind,
      id,
      name,
      from: row,
      startedAt: at,
      state: 'open',
      track,
      group,
      frames: [],
    };
    (group.tracks[track] ??= []).push(span);
    this.all.push(span);
    return span;
  }

  close(span: TraceSpan, at: number, state: TraceSpan['state'], row: number): void {
    span.endedAt = Math.max(span.startedAt, at);
    span.state = state;
    span.to = Math.max(span.from, row);
    span.group.taken.delete(span.track);
  }

  #group(spanKind: TraceSpan['kind'], path: readonly string[]): SpanGroup {
    const [lane, kind] = LANES[spanKind];
    const key = JSON.stringify([kind, path]);
    const known = this.#groups.get(key);
    if (known) return known;
    const group: SpanGroup = { lane, kind, path, tracks: [], taken: new Set() };
    this.#groups.set(key, group);
    this.#sorted = undefined;
    return group;
  }
}
