import {
  metrics as metricsApi,
  type MeterProvider,
  trace,
  type TracerProvider,
} from '@opentelemetry/api';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Agent } from '../../src/event/types.ts';
import { type Served, serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import { kitchen } from '../outputs/scripted-agent.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';

const otel = await peer('otel');
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';

interface SeenSpan {
  readonly name: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly status: { readonly code: number };
  readonly parentSpanContext?: { readonly spanId: string };
  spanContext(): { readonly traceId: string; readonly spanId: string };
}
interface SeenMetric {
  readonly descriptor: { readonly name: string; readonly unit: string };
  readonly dataPoints: readonly { readonly value: unknown }[];
}

suite('otel', otel.reason, () => {
  let served: Served;
  let spans: () => SeenSpan[];
  let metrics: () => Promise<SeenMetric[]>;
  const traces: (string | undefined)[] = [];
  let undo = (): void => {};

  beforeAll(async () => {
    const tracing = (await otel.import('@opentelemetry/sdk-trace-base')) as unknown as {
      BasicTracerProvider: new (options: object) => TracerProvider;
      SimpleSpanProcessor: new (exporter: object) => object;
      InMemorySpanExporter: new () => { getFinishedSpans(): SeenSpan[] };
    };
    const measuring = (await otel.import('@opentelemetry/sdk-metrics')) as unknown as {
      MeterProvider: new (options: object) => MeterProvider;
      PeriodicExportingMetricReader: new (options: object) => { forceFlush(): Promise<void> };
      InMemoryMetricExporter: new (temporality: number) => {
        getMetrics(): { scopeMetrics: { metrics: SeenMetric[] }[] }[];
      };
    };
    const exporter = new tracing.InMemorySpanExporter();
    const spanProcessors = [new tracing.SimpleSpanProcessor(exporter)];
    trace.setGlobalTracerProvider(new tracing.BasicTracerProvider({ spanProcessors }));
    const metricExporter = new measuring.InMemoryMetricExporter(1);
    const reader = new measuring.PeriodicExportingMetricReader({ exporter: metricExporter });
    metricsApi.setGlobalMeterProvider(new measuring.MeterProvider({ readers: [reader] }));
    undo = () => {
      trace.disable();
      metricsApi.disable();
    };
    spans = () => exporter.getFinishedSpans();
    metrics = async () => {
      await reader.forceFlush();
      return (metricExporter.getMetrics().at(-1)?.scopeMetrics ?? []).flatMap(
        (scope) => scope.metrics,
      );
    };
    const agent: Agent = (turn, ctx) => {
      traces.push(ctx.trace?.traceparent);
      return kitchen(turn, ctx);
    };
    served = await serve(
      { cook: { default: agent } },
      { log: memoryLog(), page: false, telemetry: true },
    );
  });
  afterAll(async () => {
    await served[Symbol.asyncDispose]();
    undo();
  });

  const say = async (text: string): Promise<void> => {
    const response = await fetch(`${served.url}/stream-json/cook`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', traceparent: `00-${TRACE}-${PARENT}-01` },
      body: JSON.stringify({
        type: 'user',
        session_id: 'thread',
        message: { role: 'user', content: text },
      }),
    });
    await response.text();
  };

  test("a run is a tree of spans in the caller's trace, and the agent gets the context of its span", async () => {
    await say('everything');
    const run = spans().find(({ name }) => name === 'invoke_agent cook');
    expect(run?.attributes).toMatchObject({
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.conversation.id': 'thread',
      'gen_ai.usage.input_tokens': 14,
    });
    expect(run?.spanContext().traceId).toBe(TRACE);
    expect(run?.parentSpanContext?.spanId).toBe(PARENT);
    expect(traces).toEqual([`00-${TRACE}-${run?.spanContext().spanId}-01`]);
    const below = spans().filter(
      ({ parentSpanContext }) => parentSpanContext?.spanId === run?.spanContext().spanId,
    );
    expect(below.map(({ name }) => name).toSorted()).toEqual([
      'chat',
      'chat',
      'connect',
      'execute_tool search',
      'execute_tool weigh',
    ]);
    expect(below.find(({ name }) => name === 'chat')?.attributes).toHaveProperty([
      'gen_ai.response.time_to_first_chunk',
    ]);
    const failed = below.find(({ name }) => name === 'execute_tool weigh');
    expect([failed?.status.code, failed?.attributes['error.type']]).toEqual([2, 'tool']);
  });

  test('a failed run has its error code, and no span contains text of the conversation', async () => {
    await say('fail');
    const run = spans().findLast(({ name }) => name === 'invoke_agent cook');
    expect(run?.attributes['error.type']).toBe('overloaded');
    expect(JSON.stringify(spans().map(({ attributes }) => attributes))).not.toMatch(/tea|try/);
  });

  test('metrics have the names of the semantic conventions', async () => {
    const seen = await metrics();
    const names = seen.map(({ descriptor }) => descriptor.name);
    expect(names).toEqual(
      expect.arrayContaining([
        'duolane.stream.first_token',
        'gen_ai.client.operation.time_to_first_chunk',
        'gen_ai.execute_tool.duration',
        'gen_ai.invoke_agent.duration',
        'duolane.streams.active',
      ]),
    );
    const first = seen.find(({ descriptor }) => descriptor.name === 'duolane.stream.first_token');
    expect(first?.descriptor.unit).toBe('s');
    expect(first?.dataPoints[0]?.value).toMatchObject({
      count: 2,
      buckets: { boundaries: expect.arrayContaining([0.1, 10]) as number[] },
    });
  });
});
