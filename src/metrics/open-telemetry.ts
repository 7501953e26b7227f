import type * as OpenTelemetry from '@opentelemetry/api';
import type { Context, Span, SpanContext } from '@opentelemetry/api';
import { DuolaneError } from '../errors.ts';
import type { AgentEvent, Snapshot, TaskEvent, Turn } from '../event/types.ts';
import type { RunListener, RunObserver } from '../task/types.ts';
import { usageAttributes } from './usage-attributes.ts';
import type { Instrument, Labels, Meter, Metric } from './meter.ts';
import { callTime, type MeasuredStep } from './run-metrics.ts';

type Api = typeof OpenTelemetry;
type Attributes = Record<string, string | number | boolean | string[]>;

/**
 * Measures and traces runs through the API of OpenTelemetry; the SDK that the process has set up
 * exports the results. Throws `unsupported` if the package is not installed.
 */
export async function openTelemetry(): Promise<{ meter: Meter; observer: RunObserver }> {
  const api = await import('@opentelemetry/api').catch((cause: unknown) => {
    throw new DuolaneError(
      'unsupported',
      'cannot load @opentelemetry/api: it is not installed; run npm install @opentelemetry/api',
      { cause },
    );
  });
  return { meter: otelMeter(api), observer: traceRuns(api) };
}

/**
 * A meter that records to OpenTelemetry, under the names of `METRICS` and with our buckets as
 * advice.
 */
export function otelMeter({ metrics }: Api): Meter {
  const source = metrics.getMeter('duolane');
  const made = new Map<Metric, (value: number, labels: Labels) => void>();
  const make = (metric: Metric): ((value: number, labels: Labels) => void) => {
    const { name, kind, help: description, unit, buckets } = metric;
    const options = { description, ...(unit && { unit }) };
    if (kind === 'histogram') {
      const advice = { explicitBucketBoundaries: [...(buckets ?? [])] };
      const histogram = source.createHistogram(name, { ...options, advice });
      return (value, labels) => histogram.record(value, labels);
    }
    const sum =
      kind === 'gauge'
        ? source.createUpDownCounter(name, options)
        : source.createCounter(name, options);
    return (value, labels) => sum.add(value, labels);
  };
  return {
    bind(metric, labels): Instrument {
      const write = made.get(metric) ?? make(metric);
      made.set(metric, write);
      return (value) => write(value, labels);
    },
  };
}

/**
 * Creates spans by the GenAI conventions: `invoke_agent` for a run, below it `chat` for each step
 * and `execute_tool` for each call; `connect` lasts until the first model call. A run continues the
 * trace that came with its turn, and the agent gets the span of its run. No content of messages or
 * calls is recorded.
 */
export function traceRuns(api: Api): RunObserver {
  return { run: (turn, task) => new RunSpans(api, turn, task) };
}

class RunSpans implements RunListener {
  readonly trace?: { readonly traceparent: string; readonly tracestate?: string };
  readonly #api: Api;
  readonly #span: Span;
  readonly #context: Context;
  readonly #tools = new Map<string, Span>();
  readonly #startedAt = Date.now();
  #connected = false;
  #step: (MeasuredStep & { readonly span: Span }) | undefined;
  #model: string | undefined;

  constructor(api: Api, turn: Turn, { context }: Snapshot) {
    this.#api = api;
    const parent = contextOf(api, turn);
    this.#span = this.#start(`invoke_agent ${turn.agent}`, parent, {
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.agent.name': turn.agent,
      'gen_ai.conversation.id': context,
    });
    this.#context = api.trace.setSpan(parent, this.#span);
    const spanContext = this.#span.spanContext();
    if (api.isSpanContextValid(spanContext)) this.trace = formatTrace(spanContext);
  }

  onEvent(event: TaskEvent): void {
    if (event.type === 'turn.submitted') return;
    if (event.type === 'cancel.requested') {
      this.#span.addEvent('cancel requested');
      return;
    }
    if (!event.path?.length) this.#onStepEvent(event);
    switch (event.type) {
      case 'run.started':
        this.#model = event.model ?? this.#model;
        return;
      case 'tool.called':
        this.#tools.set(
          event.callId,
          this.#start(`execute_tool ${event.name}`, this.#context, {
            'gen_ai.operation.name': 'execute_tool',
            'gen_ai.tool.name': event.name,
            'gen_ai.tool.call.id': event.callId,
          }),
        );
        return;
      case 'tool.completed':
      case 'tool.failed': {
        const span = this.#tools.get(event.callId);
        this.#tools.delete(event.callId);
        if (span && event.type === 'tool.failed') this.#fail(span, event.error.code);
        span?.end();
        return;
      }
      case 'step.stored':
        return this.#storedStep(event);
      case 'run.suspended':
        this.#span.setAttribute('duolane.outcome', 'suspended');
        return;
      case 'run.finished':
        this.#span.setAttributes(usageAttributes(event.usage));
        this.#span.setAttribute('duolane.outcome', event.outcome);
        if (event.outcome === 'failed') this.#fail(this.#span, event.error?.code ?? 'internal');
        return;
      default:
        return;
    }
  }

  onEnd(): void {
    for (const span of this.#tools.values()) span.end();
    this.#step?.span.end();
    this.#span.end();
  }

  #onStepEvent(event: AgentEvent): void {
    switch (event.type) {
      case 'step.started': {
        this.#step?.span.end();
        const span = this.#start(this.#model ? `chat ${this.#model}` : 'chat', this.#context, {
          'gen_ai.operation.name': 'chat',
          ...(this.#model !== undefined && { 'gen_ai.request.model': this.#model }),
          'gen_ai.request.stream': true,
        });
        this.#step = { span, startedAt: Date.now() };
        return;
      }
      case 'text.delta':
      case 'reasoning.delta':
      case 'tool.started':
        if (this.#step) this.#step.firstAt ??= Date.now();
        return;
      case 'step.finished':
        if (this.#step) this.#endStep(this.#step, event);
        this.#step = undefined;
        return;
      default:
        return;
    }
  }

  #endStep(
    step: MeasuredStep & { readonly span: Span },
    { firstChunkMs, usage, reason }: Extract<AgentEvent, { readonly type: 'step.finished' }>,
  ): void {
    const calledAt = callTime(step, firstChunkMs);
    const firstMs =
      firstChunkMs ?? (step.firstAt === undefined ? undefined : step.firstAt - calledAt);
    step.span.setAttributes({
      ...usageAttributes(usage),
      ...(reason && { 'gen_ai.response.finish_reasons': [reason] }),
      ...(firstMs !== undefined && { 'gen_ai.response.time_to_first_chunk': firstMs / 1000 }),
    });
    step.span.end();
    if (this.#connected) return;
    this.#connected = true;
    const tracer = this.#api.trace.getTracer('duolane');
    const connect = tracer.startSpan('connect', { startTime: this.#startedAt }, this.#context);
    connect.end(Math.max(this.#startedAt, calledAt));
  }

  /** A durable step, known when its attempt is over. A stored step that is not run has no span. */
  #storedStep(event: Extract<AgentEvent, { readonly type: 'step.stored' }>): void {
    const { id, kind, status, attempt = 1, ms, error, at = Date.now() } = event;
    if (kind !== 'step' || ms === undefined) {
      this.#span.addEvent(`${kind} ${id}: ${status}`);
      return;
    }
    const attributes = { 'duolane.step.id': id, 'duolane.step.attempt': attempt };
    const tracer = this.#api.trace.getTracer('duolane');
    const span = tracer.startSpan(`step ${id}`, { attributes, startTime: at - ms }, this.#context);
    if (error) this.#fail(span, error.code);
    span.end(at);
  }

  #start(name: string, parent: Context, attributes: Attributes): Span {
    return this.#api.trace.getTracer('duolane').startSpan(name, { attributes }, parent);
  }

  #fail(span: Span, code: string): void {
    span.setAttribute('error.type', code);
    span.setStatus({ code: this.#api.SpanStatusCode.ERROR });
  }
}

/** The trace of the caller, if the turn has one. */
function contextOf(api: Api, { metadata }: Turn): Context {
  const given = metadata?.['traceparent'];
  const [, traceId, spanId, flags] =
    typeof given === 'string'
      ? (/^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})/.exec(given) ?? [])
      : [];
  if (traceId === undefined || spanId === undefined) return api.context.active();
  const state = metadata?.['tracestate'];
  const span: SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags ?? '00', 16),
    isRemote: true,
    ...(typeof state === 'string' && { traceState: api.createTraceState(state) }),
  };
  return api.trace.setSpanContext(api.ROOT_CONTEXT, span);
}

function formatTrace({ traceId, spanId, traceFlags, traceState }: SpanContext): {
  readonly traceparent: string;
  readonly tracestate?: string;
} {
  const flags = traceFlags.toString(16).padStart(2, '0');
  const tracestate = traceState?.serialize();
  return { traceparent: `00-${traceId}-${spanId}-${flags}`, ...(tracestate && { tracestate }) };
}
