import { type Meter, METRICS } from './meter.ts';

/** An open stream, from its headers to its end. */
export interface StreamMeter {
  chunk(): void;
  end(): void;
}

/** Measures streams by what is spoken on them; `resumed` ones went on behind an id of the client. */
export function observeStreams(
  meter: Meter,
  now: () => number = () => performance.now(),
): (protocol: string, resumed: boolean) => StreamMeter {
  return (protocol, resumed) => {
    const labels = { protocol };
    const active = meter.bind(METRICS.activeStreams, labels);
    const chunks = meter.bind(METRICS.streamEvents, labels);
    const startedAt = now();
    active(1);
    if (resumed) meter.bind(METRICS.resumes, labels)(1);
    return {
      chunk: () => chunks(1),
      end() {
        active(-1);
        meter.bind(METRICS.stream, labels)((now() - startedAt) / 1000);
      },
    };
  };
}
