import { expect } from 'vitest';
import { evaluate, type Evaluated, otlpOf } from '../../src/eval/index.ts';
import { spansOf } from '../../src/eval/spans.ts';
import { kitchen } from '../outputs/scripted-agent.ts';
import { peer } from '../peers.ts';
import { suite, verifies } from '../verifies.ts';

const otel = await peer('otel');

interface Body {
  readonly resourceSpans: readonly [{ readonly scopeSpans: readonly [{ readonly spans: Wire[] }] }];
}
interface Wire {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
}

suite('otel', otel.reason, () => {
  verifies('S268', 'traces have the form that the official serializer gives them', async () => {
    const { JsonTraceSerializer } = (await otel.import('@opentelemetry/otlp-transformer')) as {
      JsonTraceSerializer: { serializeRequest: (spans: readonly object[]) => Uint8Array };
    };
    const { resourceFromAttributes } = (await otel.import('@opentelemetry/resources')) as {
      resourceFromAttributes: (attributes: object) => object;
    };
    const runs: Evaluated[] = [];
    for await (const run of evaluate(kitchen, [{ name: 'one', input: 'everything' }]))
      runs.push(run);
    const ours = otlpOf(runs, { service: 's', langfuse: true, content: true }) as unknown as Body;
    const wires = ours.resourceSpans[0].scopeSpans[0].spans;
    const resource = resourceFromAttributes({ 'service.name': 's' });
    const time = (ms: number): [number, number] => [Math.floor(ms / 1000), (ms % 1000) * 1e6];
    const official = spansOf(runs[0] as Evaluated, { langfuse: true, content: true }).map(
      ({ name, start, end, failed, attributes }, index) => ({
        name,
        kind: 0,
        spanContext: () => ({ ...wires[index], traceFlags: 1 }),
        ...(index > 0 && { parentSpanContext: { spanId: wires[index]?.parentSpanId } }),
        startTime: time(start),
        endTime: time(end),
        status: { code: failed ? 2 : 0 },
        attributes: Object.fromEntries(
          Object.entries(attributes).filter(([, value]) => value !== undefined),
        ),
        links: [],
        events: [],
        resource,
        instrumentationScope: { name: 'duolane/eval' },
        droppedAttributesCount: 0,
        droppedEventsCount: 0,
        droppedLinksCount: 0,
      }),
    );
    const text = new TextDecoder().decode(JsonTraceSerializer.serializeRequest(official));
    expect(official.length).toBeGreaterThan(1);
    expect(settled(ours)).toEqual(settled(JSON.parse(text)));
  });
});

/** Removes default values, and converts numbers of any width to numbers. */
function settled(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(settled);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).flatMap(([key, each]): [string, unknown][] => {
    if (/^dropped|^flags$|^links$|^events$/.test(key)) return [];
    if (key === 'intValue' || key === 'doubleValue') return [['number', Number(each)]];
    if (key === 'status') return [[key, { code: 0, ...(each as object) }]];
    return [[key, settled(each)]];
  });
  return Object.fromEntries(entries);
}
