import type { Entry } from '../event/types.ts';
import { usageAttributes } from '../metrics/usage-attributes.ts';
import type { Evaluated } from './types.ts';

/** What exported spans contain. */
export interface SpanOptions {
  /** Includes prompts, texts, arguments and outputs. Off by default. */
  readonly content?: boolean;
  /** Adds the few attributes that Langfuse reads besides those of the GenAI conventions. */
  readonly langfuse?: boolean;
}

export type AttributeValue = string | number | boolean | readonly string[] | undefined;
export type Attributes = Readonly<Record<string, AttributeValue>>;

/** One span. Times are Unix milliseconds. */
export interface Span {
  readonly name: string;
  readonly start: number;
  readonly end: number;
  readonly failed: boolean;
  readonly attributes: Attributes;
}

const FIRST_CHUNK = 'gen_ai.response.time_to_first_chunk';

/** The span of the run, then those of its steps and calls in order, by the GenAI conventions. */
export function spansOf(run: Evaluated, options: SpanOptions): readonly Span[] {
  const spans = new Spans(run, options);
  for (const entry of run.entries) spans.onEntry(entry);
  return spans.all;
}

class Spans {
  readonly all: Span[];
  readonly #options: SpanOptions;
  readonly #end: number;
  /** The index of each span of a call, by call id. */
  readonly #open = new Map<string, number>();
  #step: number | undefined;
  #model: string | undefined;

  constructor(run: Evaluated, options: SpanOptions) {
    this.#options = options;
    this.#end = run.entries.at(-1)?.at ?? 0;
    this.all = [this.#root(run)];
  }

  onEntry(entry: Entry): void {
    if (!('path' in entry && entry.path?.length)) this.#onStepEntry(entry);
    switch (entry.type) {
      case 'run.started':
        this.#model = entry.model ?? this.#model;
        return;
      case 'tool.called':
        this.#open.set(
          entry.callId,
          this.#begin(`execute_tool ${entry.name}`, entry.at, {
            'gen_ai.operation.name': 'execute_tool',
            'gen_ai.tool.name': entry.name,
            'gen_ai.tool.call.id': entry.callId,
            ...this.#type('tool'),
            ...this.#content('input', entry.args),
          }),
        );
        return;
      case 'step.stored':
        if (entry.kind !== 'step' || entry.ms === undefined) return;
        this.#update(this.#begin(`step ${entry.id}`, entry.at - entry.ms, {}), {
          end: entry.at,
          failed: entry.error !== undefined,
          attributes: entry.error ? { 'error.type': entry.error.code } : {},
        });
        return;
      case 'tool.completed':
        this.#update(this.#open.get(entry.callId), {
          end: entry.at,
          attributes: this.#content('output', entry.output),
        });
        return;
      case 'tool.failed':
        this.#update(this.#open.get(entry.callId), {
          end: entry.at,
          failed: true,
          attributes: {
            'error.type': entry.error.code,
            ...this.#content('output', entry.error.message),
          },
        });
        return;
      default:
        return;
    }
  }

  #onStepEntry(entry: Entry): void {
    switch (entry.type) {
      case 'step.started':
        this.#step = this.#begin(
          this.#model === undefined ? 'chat' : `chat ${this.#model}`,
          entry.at,
          {
            'gen_ai.operation.name': 'chat',
            'gen_ai.request.model': this.#model,
            'gen_ai.request.stream': true,
            ...this.#type('generation'),
          },
        );
        return;
      case 'text.delta':
      case 'reasoning.delta': {
        const step = this.#step === undefined ? undefined : this.all[this.#step];
        if (step && !(FIRST_CHUNK in step.attributes)) this.#firstChunk(step, entry.at);
        return;
      }
      case 'step.finished':
        this.#update(this.#step, {
          end: entry.at,
          attributes: {
            ...usageAttributes(entry.usage),
            ...(entry.reason && { 'gen_ai.response.finish_reasons': [entry.reason] }),
          },
        });
        this.#step = undefined;
        return;
      default:
        return;
    }
  }

  #root(run: Evaluated): Span {
    const [first] = run.entries;
    const turn = first?.type === 'turn.submitted' ? first.turn : undefined;
    return {
      name: `invoke_agent ${turn?.agent}`,
      start: first?.at ?? 0,
      end: this.#end,
      failed: run.outcome === 'failed',
      attributes: {
        'gen_ai.operation.name': 'invoke_agent',
        'gen_ai.agent.name': turn?.agent,
        'gen_ai.conversation.id': turn?.context,
        'duolane.eval.case': run.case.name,
        'duolane.eval.round': run.round,
        'duolane.eval.pass': run.pass,
        'duolane.outcome': run.outcome,
        'error.type': run.error?.code,
        ...usageAttributes(run.usage),
        ...this.#type('agent'),
        ...(this.#options.langfuse && forLangfuse(run, turn?.context)),
        ...this.#content('input', run.case.input),
        ...this.#content('output', run.output ?? run.text),
      },
    };
  }

  #firstChunk(step: Span, at: number): void {
    this.#update(this.#step, {
      attributes: {
        [FIRST_CHUNK]: (at - step.start) / 1000,
        ...(this.#options.langfuse && {
          'langfuse.observation.completion_start_time': new Date(at).toISOString(),
        }),
      },
    });
  }

  /** Adds a span. It ends with the run unless it is ended before. */
  #begin(name: string, start: number, attributes: Attributes): number {
    return this.all.push({ name, start, end: this.#end, failed: false, attributes }) - 1;
  }

  #update(index: number | undefined, { attributes, ...rest }: Partial<Span>): void {
    const span = index === undefined ? undefined : this.all[index];
    if (!span || index === undefined) return;
    this.all[index] = { ...span, ...rest, attributes: { ...span.attributes, ...attributes } };
  }

  #type(type: string): Attributes {
    return this.#options.langfuse ? { 'langfuse.observation.type': type } : {};
  }

  #content(side: 'input' | 'output', value: unknown): Attributes {
    if (!this.#options.content) return {};
    const prefix = this.#options.langfuse ? 'langfuse.observation' : 'duolane';
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return { [`${prefix}.${side}`]: text };
  }
}

/**
 * The attributes for Langfuse, with the scores: it reads no events, but shows the metadata of a
 * trace.
 */
function forLangfuse(run: Evaluated, session: string | undefined): Attributes {
  const scores = run.scores.map(({ name, value }) => [
    `langfuse.trace.metadata.${name.replaceAll(/\W/g, '')}`,
    value,
  ]);
  return {
    'langfuse.trace.name': run.case.name,
    'langfuse.session.id': session,
    ...(Object.fromEntries(scores) as Attributes),
  };
}
