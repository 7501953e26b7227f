import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Metric } from './meter.ts';
import { METRICS } from './meter.ts';
import { prometheusName, Registry } from './prometheus-registry.ts';

const TIMES: Metric = {
  name: 'a.b',
  kind: 'histogram',
  unit: 's',
  help: 'Times.',
  labels: ['tool'],
  buckets: [0.1, 1, 10],
};
const COUNT: Metric = { name: 'a.count', kind: 'counter', help: 'Count.', labels: ['tool'] };

/** Reads samples by name and labels, as a scraper does. Throws on an invalid line. */
function parse(text: string): Map<string, number> {
  const samples = new Map<string, number>();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('# ')) continue;
    const [, series, value] =
      /^([a-zA-Z_:][\w:]*(?:\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})?) (\S+)$/.exec(line) ?? [];
    if (series === undefined || Number.isNaN(Number(value))) throw new Error(`no sample: ${line}`);
    samples.set(series, Number(value));
  }
  return samples;
}

test('a histogram is written cumulatively, with its sum and count', () => {
  const registry = new Registry();
  const record = registry.bind(TIMES, { tool: 'x' });
  for (const value of [0.05, 0.1, 0.5, 99]) record(value);
  expect(registry.text()).toBe(
    [
      '# HELP a_b_seconds Times.',
      '# TYPE a_b_seconds histogram',
      'a_b_seconds_bucket{tool="x",le="0.1"} 2',
      'a_b_seconds_bucket{tool="x",le="1"} 3',
      'a_b_seconds_bucket{tool="x",le="10"} 3',
      'a_b_seconds_bucket{tool="x",le="+Inf"} 4',
      'a_b_seconds_sum{tool="x"} 99.65',
      'a_b_seconds_count{tool="x"} 4',
      '',
    ].join('\n'),
  );
});

test('any observations under any labels are written with the right counts', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.string(), fc.double({ min: 0, max: 100, noNaN: true }))),
      (observed) => {
        const registry = new Registry();
        for (const [tool, value] of observed) {
          registry.bind(TIMES, { tool })(value);
          registry.bind(COUNT, { tool })(1);
        }
        const samples = parse(registry.text());
        const total = (name: string): number =>
          [...samples].reduce((sum, [key, n]) => (key.startsWith(name) ? sum + n : sum), 0);
        expect(total('a_b_seconds_count')).toBe(observed.length);
        expect(total('a_count_total')).toBe(observed.length);
        for (const bound of [0.1, 1, 10]) {
          const below = [...samples].filter(([key]) => key.endsWith(`le="${bound}"}`));
          expect(below.reduce((sum, [, n]) => sum + n, 0)).toBe(
            observed.filter(([, value]) => value <= bound).length,
          );
        }
      },
    ),
  );
});

test('invented label values do not fill the memory: beyond 500 series they are counted together', () => {
  const registry = new Registry();
  for (let i = 0; i < 2000; i++) registry.bind(COUNT, { tool: `made up ${i}` })(1);
  const samples = parse(registry.text());
  expect(samples.size).toBe(501);
  expect(samples.get('a_count_total{tool="other"}')).toBe(1500);
});

test('names are those of the conventions, each with its unit', () => {
  expect(Object.values(METRICS).map(prometheusName)).toEqual([
    'duolane_stream_first_token_seconds',
    'duolane_run_connect_seconds',
    'gen_ai_client_operation_time_to_first_chunk_seconds',
    'gen_ai_client_operation_duration_seconds',
    'gen_ai_execute_tool_duration_seconds',
    'gen_ai_invoke_agent_duration_seconds',
    'duolane_cancel_seconds',
    'duolane_run_queued_seconds',
    'duolane_runs_active',
    'duolane_turns_waiting',
    'duolane_run_events_total',
    'duolane_cancels_total',
    'duolane_retries_total',
    'duolane_tokens_total',
    'duolane_streams_active',
    'duolane_stream_seconds',
    'duolane_stream_events_total',
    'duolane_stream_resumes_total',
  ]);
});
