export { evaluate, type EvaluateOptions } from './evaluate.ts';
export { otlpOf, type OtlpOptions, sendOtlp, type OtlpSendOptions } from './otlp.ts';
export { type EvalReport, markdownOf, reportOf, type ReportedRun, type Spread } from './report.ts';
export type * from './types.ts';
export type { SpanOptions } from './spans.ts';
