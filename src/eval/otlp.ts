import { createHash } from 'node:crypto';
import { DuolaneError } from '../errors.ts';
import { asObject, type JsonObject } from '../json.ts';
import { type Attributes, type SpanOptions, spansOf, type AttributeValue } from './spans.ts';
import type { Evaluated, Score } from './types.ts';

/** Options of `otlpOf`. */
export interface OtlpOptions extends SpanOptions {
  /** The name of the service that the traces belong to. */
  readonly service: string;
}

/**
 * Encodes runs as traces in the JSON form of OTLP: `invoke_agent` for a run, below it `chat` for
 * each step and `execute_tool` for each call. Scores are `gen_ai.evaluation.result` events of the
 * run. Ids are derived from the task, so a run that is sent twice is one trace.
 */
export function otlpOf(runs: readonly Evaluated[], options: OtlpOptions): JsonObject {
  const resource = { attributes: encoded({ 'service.name': options.service }) };
  const spans = runs.flatMap((run) => traceOf(run, options));
  return {
    resourceSpans: [{ resource, scopeSpans: [{ scope: { name: 'duolane/eval' }, spans }] }],
  };
}

function traceOf(run: Evaluated, options: OtlpOptions): readonly JsonObject[] {
  const [first] = run.entries;
  if (first?.type !== 'turn.submitted') return [];
  const { task } = first.turn;
  const traceId = digest(task, 32);
  const [root, ...below] = spansOf(run, options).map((span, index) => ({
    traceId,
    spanId: digest(`${task}/${index}`, 16),
    ...(index > 0 && { parentSpanId: digest(`${task}/0`, 16) }),
    name: span.name,
    kind: 1,
    startTimeUnixNano: nanos(span.start),
    endTimeUnixNano: nanos(Math.max(span.start, span.end)),
    attributes: encoded(span.attributes),
    status: span.failed ? { code: 2 } : {},
  }));
  const events = run.scores.map((score) => ({
    name: 'gen_ai.evaluation.result',
    timeUnixNano: root?.endTimeUnixNano,
    attributes: encoded(scoreAttributes(score)),
  }));
  return [{ ...root, events }, ...below];
}

const scoreAttributes = ({ name, value, pass, why }: Score): Attributes => ({
  'gen_ai.evaluation.name': name,
  'gen_ai.evaluation.score.value': value,
  'gen_ai.evaluation.score.label': pass ? 'pass' : 'fail',
  'gen_ai.evaluation.explanation': why,
});

const digest = (text: string, digits: number): string =>
  createHash('sha256').update(text).digest('hex').slice(0, digits);

const nanos = (ms: number): string => `${Math.round(ms)}000000`;

function encoded(attributes: Attributes): readonly JsonObject[] {
  return Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ({
      key,
      value: FRACTIONS.has(key) ? { doubleValue: value } : valueOf(value),
    }));
}

/**
 * Attributes that the conventions define as double stay doubles, also if the value is an integer.
 */
const FRACTIONS: ReadonlySet<string> = new Set([
  'gen_ai.evaluation.score.value',
  'gen_ai.response.time_to_first_chunk',
]);

function valueOf(value: AttributeValue): JsonObject {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value !== 'number') return { arrayValue: { values: (value ?? []).map(valueOf) } };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** Headers, such as an API key, and the signal of the request. */
export interface OtlpSendOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/**
 * Sends traces by POST to `<url>/v1/traces`. Throws `server`, with the text of the response, if
 * they are rejected, even in part.
 */
export async function sendOtlp(
  url: string,
  body: JsonObject,
  { headers = {}, signal }: OtlpSendOptions = {},
): Promise<void> {
  const address = `${url.replace(/\/(?:v1\/traces)?$/, '')}/v1/traces`;
  const response = await fetch(address, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  }).catch((cause: unknown) => {
    signal?.throwIfAborted();
    const why = `cannot send traces to ${address}: no connection; is the collector running?`;
    throw new DuolaneError('server', why, { cause });
  });
  const text = await response.text();
  if (!response.ok) {
    const why = `${address} rejected the traces: ${response.status} ${text.slice(0, 300)}`;
    throw new DuolaneError('server', why);
  }
  const rejected = rejectedSpans(text);
  if (rejected > 0)
    throw new DuolaneError(
      'server',
      `${address} rejected ${rejected} spans: ${text.slice(0, 300)}`,
    );
}

function rejectedSpans(text: string): number {
  try {
    const { partialSuccess } = asObject(JSON.parse(text));
    return Number(asObject(partialSuccess)['rejectedSpans'] ?? 0);
  } catch {
    return 0; // A body in another format says nothing about spans.
  }
}
