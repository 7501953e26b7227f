import { readdirSync } from 'node:fs';
import { constants, monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks';

/** Metrics of this process, in the text format of Prometheus. */
export interface ProcessMetrics extends Disposable {
  text(): string;
}

const GC_KINDS: Readonly<Record<number, string>> = {
  [constants.NODE_PERFORMANCE_GC_MAJOR]: 'major',
  [constants.NODE_PERFORMANCE_GC_MINOR]: 'minor',
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL]: 'incremental',
  [constants.NODE_PERFORMANCE_GC_WEAKCB]: 'weakcb',
};

/**
 * Measures memory, processor time, the delay of the event loop, garbage collection and open files.
 * The names are those of `prom-client`, so dashboards for Node work unchanged. Does not keep the
 * process alive.
 */
export function observeProcess(): ProcessMetrics {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const collections = new Map<string, { seconds: number; count: number }>();
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const { kind = 0 } = (entry as { readonly detail?: { readonly kind?: number } }).detail ?? {};
      const name = GC_KINDS[kind] ?? 'other';
      const { seconds, count } = collections.get(name) ?? { seconds: 0, count: 0 };
      collections.set(name, { seconds: seconds + entry.duration / 1000, count: count + 1 });
    }
  });
  observer.observe({ entryTypes: ['gc'] });
  return {
    text() {
      const lines = [...usageLines(), ...delayLines(delay)];
      // The percentiles are those since the last scrape, as dashboards expect.
      delay.reset();
      const name = 'nodejs_gc_duration_seconds';
      lines.push(`# HELP ${name} Time in garbage collection`, `# TYPE ${name} summary`);
      for (const [kind, { seconds, count }] of collections)
        lines.push(
          `${name}_sum{kind="${kind}"} ${seconds}`,
          `${name}_count{kind="${kind}"} ${count}`,
        );
      return `${lines.join('\n')}\n`;
    },
    [Symbol.dispose]() {
      delay.disable();
      observer.disconnect();
    },
  };
}

function* usageLines(): Generator<string> {
  const { user, system } = process.cpuUsage();
  const memory = process.memoryUsage();
  yield* counter('process_cpu_user_seconds_total', 'User processor time', user / 1e6);
  yield* counter('process_cpu_system_seconds_total', 'System processor time', system / 1e6);
  yield* counter('process_cpu_seconds_total', 'Processor time', (user + system) / 1e6);
  const started = Date.now() / 1000 - process.uptime();
  yield* gauge('process_start_time_seconds', 'Start of the process', Math.round(started));
  yield* gauge('process_resident_memory_bytes', 'Resident memory', memory.rss);
  yield* gauge('nodejs_heap_size_total_bytes', 'Size of the heap', memory.heapTotal);
  yield* gauge('nodejs_heap_size_used_bytes', 'Used size of the heap', memory.heapUsed);
  yield* gauge('nodejs_external_memory_bytes', 'Memory outside of the heap', memory.external);
  const files = openFiles();
  if (files !== undefined) yield* gauge('process_open_fds', 'Open file descriptors', files);
}

function* delayLines(delay: ReturnType<typeof monitorEventLoopDelay>): Generator<string> {
  const name = 'nodejs_eventloop_lag';
  const seconds = (ns: number): number => (Number.isFinite(ns) ? ns / 1e9 : 0);
  yield* gauge(`${name}_mean_seconds`, 'Mean delay of the event loop', seconds(delay.mean));
  yield* gauge(`${name}_max_seconds`, 'Longest delay of the event loop', seconds(delay.max));
  for (const share of [50, 90, 99])
    yield* gauge(
      `${name}_p${share}_seconds`,
      `${share}th percentile of the delay of the event loop`,
      seconds(delay.percentile(share)),
    );
}

const gauge = (name: string, help: string, value: number): string[] =>
  sample('gauge', name, help, value);
const counter = (name: string, help: string, value: number): string[] =>
  sample('counter', name, help, value);
const sample = (kind: string, name: string, help: string, value: number): string[] => [
  `# HELP ${name} ${help}`,
  `# TYPE ${name} ${kind}`,
  `${name} ${value}`,
];

function openFiles(): number | undefined {
  try {
    return readdirSync('/proc/self/fd').length;
  } catch {
    return undefined; // only Linux has this folder
  }
}
