import { createHash } from 'node:crypto';
import { DuolaneError } from 'duolane';
import { z } from 'zod';
import { checkWidth, type VectorEngine } from './engine.ts';

export interface QdrantOptions {
  readonly url: string;
  /** How the names of our collections begin; each corpus and embedder has one of its own. */
  readonly prefix?: string;
  readonly apiKey?: string;
  readonly timeoutMs?: number;
}

const POINTS_AT_ONCE = 256;
const Count = z.object({ result: z.object({ count: z.number() }) });
const Points = z.object({
  result: z.object({ points: z.array(z.object({ id: z.number(), score: z.number() })) }),
});

/**
 * A collection in Qdrant 1.10 or later, over REST. The collection is named after what it holds and
 * counts as built when it has every point, so a build that broke off is done again.
 */
export function qdrantEngine(options: QdrantOptions): VectorEngine {
  const { url, prefix = 'guidelines', apiKey, timeoutMs = 30_000 } = options;

  async function call(
    method: string,
    path: string,
    body: object | undefined,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    const limit = AbortSignal.timeout(timeoutMs);
    try {
      const response = await fetch(`${url.replace(/\/$/, '')}${path}`, {
        method,
        headers: {
          'content-type': 'application/json',
          ...(apiKey !== undefined && { 'api-key': apiKey }),
        },
        ...(body && { body: JSON.stringify(body) }),
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
      });
      if (response.ok) return await response.json();
      const { status } = response;
      const code = status === 404 ? 'not_found' : 'server';
      const said = (await response.text()).slice(0, 300);
      throw new DuolaneError(code, `Qdrant answered ${status} to ${method} ${path}: ${said}`, {
        status,
      });
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw DuolaneError.from(error, limit.aborted ? 'timeout' : 'network');
    }
  }

  return {
    async open({ fingerprint, size, make, signal }) {
      const name = createHash('sha256').update(JSON.stringify(fingerprint)).digest('hex');
      const path = `/collections/${encodeURIComponent(`${prefix}-${name.slice(0, 16)}`)}`;
      if ((await countPoints(path, signal)) !== size) {
        const vectors = await make();
        await call('DELETE', path, undefined, signal);
        const shape = { size: fingerprint.dimensions, distance: 'Cosine' };
        await call('PUT', path, { vectors: shape }, signal);
        for (let from = 0; from < vectors.length; from += POINTS_AT_ONCE) {
          const part = vectors.slice(from, from + POINTS_AT_ONCE);
          const points = part.map((vector, i) => ({ id: from + i, vector: [...vector] }));
          await call('PUT', `${path}/points?wait=true`, { points }, signal);
        }
      }
      return {
        size,
        async search(query, limit, abort) {
          checkWidth(query, fingerprint.dimensions);
          const answer = await call('POST', `${path}/points/query`, asked(query, limit), abort);
          return read(Points, answer).result.points.map(({ id, score }) => ({ at: id, score }));
        },
        [Symbol.dispose]() {},
      };
    },
  };

  async function countPoints(path: string, signal: AbortSignal | undefined): Promise<number> {
    try {
      const answer = await call('POST', `${path}/points/count`, { exact: true }, signal);
      return read(Count, answer).result.count;
    } catch (error) {
      if (error instanceof DuolaneError && error.code === 'not_found') return -1;
      throw error;
    }
  }
}

const asked = (query: Float32Array, limit: number): object => ({
  query: [...query],
  limit,
  with_payload: false,
});

function read<Shape>(schema: z.ZodType<Shape>, answer: unknown): Shape {
  const parsed = schema.safeParse(answer);
  if (parsed.success) return parsed.data;
  throw new DuolaneError(
    'malformed',
    `Qdrant answered in a shape that we do not know: ${z.prettifyError(parsed.error)}`,
  );
}
