export { type Instrument, type Labels, type Meter, type Metric, METRICS } from './meter.ts';
export { openTelemetry, otelMeter, traceRuns } from './otel.ts';
export { prometheusName, Registry } from './registry.ts';
export { observeAll, type ObserveOptions, observeRuns } from './runs.ts';
export { observeStreams, type StreamMeter } from './streams.ts';
