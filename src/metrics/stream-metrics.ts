import { type Meter, METRICS } from './meter.ts';

/** An open stream, from its headers to its end. */
export interface StreamMeter {
  events(count: number): void;
  end(): void;
}

/** Measures streams by protocol; a `resumed` stream continues after an event id of the client. */
export function observeStreams(
  meter: Meter,
  now: () => number = () => performance.now(),
): (protocol: string, resumed: boolean) => StreamMeter {
  const known = new Map<string, ReturnType<typeof bindAll>>();
  return (protocol, resumed) => {
    const bound = known.get(protocol) ?? bindAll(meter, protocol);
    known.set(protocol, bound);
    const startedAt = now();
    bound.active(1);
    if (resumed) meter.bind(METRICS.resumes, { protocol })(1);
    return {
      events: (count) => bound.events(count),
      end() {
        bound.active(-1);
        bound.took((now() - startedAt) / 1000);
      },
    };
  };
}

/** The series of one protocol; a server has as many as it has streaming routes. */
const bindAll = (meter: Meter, protocol: string) => ({
  active: meter.bind(METRICS.activeStreams, { protocol }),
  events: meter.bind(METRICS.streamEvents, { protocol }),
  took: meter.bind(METRICS.stream, { protocol }),
});
