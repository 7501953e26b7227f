import type { Instrument, Labels, Meter, Metric } from './meter.ts';

/**
 * The largest number of series of one metric: a model that invents tool names must not fill the
 * memory.
 */
const MAX_SERIES = 500;
const OTHER = 'other';

interface Series {
  readonly labels: readonly string[];
  /** The sum of a histogram, or the value of a counter or gauge. */
  value: number;
  count: number;
  /** Observations per bucket, not cumulative; the last one is above all bounds. */
  readonly buckets: number[];
}

/**
 * Keeps measurements in memory and writes them in the text format of Prometheus. Beyond 500 series
 * of one metric, further label values are counted together as `other`.
 */
export class Registry implements Meter {
  readonly #metrics = new Map<Metric, Map<string, Series>>();

  bind(metric: Metric, labels: Labels): Instrument {
    const series = this.#series(metric, labels);
    const { buckets: bounds = [] } = metric;
    if (metric.kind !== 'histogram') return (value) => void (series.value += value);
    return (value) => {
      let at = 0;
      while (at < bounds.length && value > (bounds[at] as number)) at += 1;
      series.buckets[at] = (series.buckets[at] as number) + 1;
      series.value += value;
      series.count += 1;
    };
  }

  /** Returns all metrics with at least one measurement. */
  text(): string {
    const lines: string[] = [];
    for (const [metric, all] of this.#metrics) {
      const name = prometheusName(metric);
      lines.push(`# HELP ${name} ${metric.help}`, `# TYPE ${name} ${metric.kind}`);
      for (const series of all.values()) lines.push(...sample(name, metric, series));
    }
    return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
  }

  #series(metric: Metric, labels: Labels): Series {
    const all = this.#metrics.get(metric) ?? new Map<string, Series>();
    this.#metrics.set(metric, all);
    const given = metric.labels.map((label) => labels[label] ?? '');
    const known = all.get(given.join('\0'));
    if (known) return known;
    const values = all.size < MAX_SERIES ? given : given.map(() => OTHER);
    const key = values.join('\0');
    const series = all.get(key) ?? {
      labels: values,
      value: 0,
      count: 0,
      buckets: Array.from({ length: (metric.buckets?.length ?? 0) + 1 }, () => 0),
    };
    all.set(key, series);
    return series;
  }
}

/** `gen_ai.client.operation.duration` in seconds is `gen_ai_client_operation_duration_seconds`. */
export function prometheusName({ name, kind, unit }: Metric): string {
  const base = name.replaceAll('.', '_');
  if (kind === 'counter') return `${base}_total`;
  return unit === 's' ? `${base}_seconds` : base;
}

function sample(name: string, metric: Metric, { labels, value, count, buckets }: Series): string[] {
  const own = metric.labels.map((label, i) => `${label}="${escape(labels[i] ?? '')}"`);
  if (metric.kind !== 'histogram') return [`${name}${braces(own)} ${value}`];
  let below = 0;
  const bounds = [...(metric.buckets ?? []).map((bound) => String(round(bound))), '+Inf'];
  return [
    ...bounds.map((bound, i) => {
      below += buckets[i] ?? 0;
      return `${name}_bucket${braces([...own, `le="${bound}"`])} ${below}`;
    }),
    `${name}_sum${braces(own)} ${value}`,
    `${name}_count${braces(own)} ${count}`,
  ];
}

/** Removes the rounding error of binary fractions: 0.1 * 2 ** 3 becomes 0.8. */
const round = (bound: number): number => Number(bound.toPrecision(12));

const braces = (labels: readonly string[]): string =>
  labels.length === 0 ? '' : `{${labels.join(',')}}`;

const escape = (value: string): string =>
  value
    .replaceAll('\\', String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll('\n', String.raw`\n`);
