import { finding } from './rules.ts';
import type { Finding } from './types.ts';

/** When the events of one stream happened, in Unix ms. */
export interface StreamTiming {
  readonly sentAt: number;
  readonly events: readonly {
    /** When it arrived here. */
    readonly at: number;
    /** When it happened, by the clock of the server. */
    readonly stamp?: number;
  }[];
  /** The longest time without a byte; heartbeats are bytes. */
  readonly silentMs: number;
}

const SLOW_START_MS = 2000;
const SILENT_MS = 30_000;
/** A shorter run cannot distinguish a buffer from a fast server. */
const MEASURABLE_MS = 250;

/** Checks the times of a stream: first event, buffering, silence. Its findings have no line. */
export function checkTiming({ sentAt, events, silentMs }: StreamTiming): Finding[] {
  const found: Finding[] = [];
  const [first] = events;
  if (first && first.at - sentAt > SLOW_START_MS)
    found.push(finding('stream-slow-start', 0, `the first event took ${first.at - sentAt} ms`));
  const buffered = bufferedSpan(events);
  if (buffered) {
    const what = `events of ${buffered.happenedMs} ms arrived within ${buffered.arrivedMs} ms`;
    found.push(finding('stream-buffered', 0, what));
  }
  if (silentMs > SILENT_MS) found.push(finding('stream-silent', 0, `no byte for ${silentMs} ms`));
  return found;
}

/** Checks the headers of a stream: media type, and headers that prevent buffering. */
export function checkHeaders(headers: Headers): Finding[] {
  const type = headers.get('content-type') ?? 'nothing';
  const found: Finding[] = [];
  if (!/^text\/event-stream\b/i.test(type))
    return [finding('stream-media-type', 0, `the content-type is ${type}`)];
  if (!/no-cache|no-store/i.test(headers.get('cache-control') ?? ''))
    found.push(finding('stream-headers', 0, 'cache-control has neither no-cache nor no-store'));
  if (headers.get('x-accel-buffering')?.toLowerCase() !== 'no')
    found.push(finding('stream-headers', 0, 'x-accel-buffering is not no: nginx would buffer'));
  return found;
}

function bufferedSpan(
  events: StreamTiming['events'],
): { readonly happenedMs: number; readonly arrivedMs: number } | undefined {
  const stamped = events.filter(({ stamp }) => stamp !== undefined);
  const [first, last] = [stamped[0], stamped.at(-1)];
  if (!first || !last) return undefined;
  const happenedMs = (last.stamp ?? 0) - (first.stamp ?? 0);
  const arrivedMs = last.at - first.at;
  return happenedMs >= MEASURABLE_MS && arrivedMs < happenedMs / 5
    ? { happenedMs, arrivedMs }
    : undefined;
}
