import { DuolaneError } from 'duolane';
import { z } from 'zod';
import { type Embedder, unit } from './embedder.ts';

export interface EndpointOptions {
  /** With the version: `https://host/v1` for an OpenAI-compatible server, `http://host:11434` for Ollama. */
  readonly baseUrl: string;
  readonly model: string;
  readonly dimensions: number;
  readonly apiKey?: string;
  readonly maxBatch?: number;
  readonly timeoutMs?: number;
}

const OpenAiAnswer = z.object({
  data: z.array(z.object({ index: z.number(), embedding: z.array(z.number()) })),
});
const OllamaAnswer = z.object({ embeddings: z.array(z.array(z.number())) });

/** Any server with `POST /embeddings` in OpenAI's shape. */
export function openAiEmbedder(options: EndpointOptions): Embedder {
  const { model, dimensions } = options;
  return endpoint('openai', options, '/embeddings', async (input, post) => {
    const { data } = OpenAiAnswer.parse(
      await post({ model, input, dimensions, encoding_format: 'float' }),
    );
    return data.toSorted((a, b) => a.index - b.index).map(({ embedding }) => embedding);
  });
}

/** A model that Ollama serves. */
export function ollamaEmbedder(options: EndpointOptions): Embedder {
  const { model } = options;
  return endpoint('ollama', options, '/api/embed', async (input, post) => {
    return OllamaAnswer.parse(await post({ model, input, truncate: true })).embeddings;
  });
}

type Post = (body: object) => Promise<unknown>;

function endpoint(
  kind: string,
  { baseUrl, model, dimensions, apiKey, maxBatch = 64, timeoutMs = 30_000 }: EndpointOptions,
  path: string,
  ask: (texts: readonly string[], post: Post) => Promise<readonly (readonly number[])[]>,
): Embedder {
  const url = `${baseUrl.replace(/\/$/, '')}${path}`;
  return {
    id: `${kind}:${model}`,
    dimensions,
    maxBatch,
    async embed(texts, _kind, signal) {
      const limit = AbortSignal.timeout(timeoutMs);
      const post: Post = async (body) => {
        const response = await fetch(url, {
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
          },
          body: JSON.stringify(body),
          signal: signal ? AbortSignal.any([signal, limit]) : limit,
        });
        if (!response.ok)
          throw new DuolaneError(
            'server',
            `${url} answered ${response.status}: ${(await response.text()).slice(0, 300)}`,
            { status: response.status },
          );
        return response.json();
      };
      let vectors: readonly (readonly number[])[];
      try {
        vectors = await ask(texts, post);
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        if (error instanceof z.ZodError)
          throw new DuolaneError(
            'malformed',
            `${url} answered in no shape of ${kind}: ${z.prettifyError(error)}`,
          );
        throw DuolaneError.from(error, limit.aborted ? 'timeout' : 'network');
      }
      if (vectors.length !== texts.length)
        throw new DuolaneError(
          'malformed',
          `${url} gave ${vectors.length} vectors for ${texts.length} texts`,
        );
      const wrong = vectors.find((vector) => vector.length !== dimensions);
      if (wrong)
        throw new DuolaneError(
          'invalid',
          `${model} gives ${wrong.length} dimensions, not ${dimensions}: say dimensions: ${wrong.length}`,
        );
      return vectors.map(unit);
    },
  };
}
