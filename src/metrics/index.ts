export { type Instrument, type Labels, type Meter, type Metric, METRICS } from './meter.ts';
export { openTelemetry, otelMeter, traceRuns } from './open-telemetry.ts';
export { observeProcess, type ProcessMetrics } from './process-metrics.ts';
export { prometheusName, Registry } from './prometheus-registry.ts';
export { observeAll, type ObserveOptions, observeRuns } from './run-metrics.ts';
export { observeStreams, type StreamMeter } from './stream-metrics.ts';
