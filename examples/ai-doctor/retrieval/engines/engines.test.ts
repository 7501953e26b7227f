import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { afterAll, describe, expect, test } from 'vitest';
import { openDatabase } from '../../../support/sqlite.ts';
import { peer } from '../../../../test/peers.ts';
import { suite } from '../../../../test/verifies.ts';
import { unit } from '../embedder.ts';
import { openGuidelines } from '../guidelines.ts';
import { hashedEmbedder } from '../hashed.ts';
import type { VectorEngine, VectorSource } from './engine.ts';
import { flatEngine, flatStore } from './flat.ts';
import { type PgConnection, pgvectorEngine } from './pgvector.ts';
import { qdrantEngine } from './qdrant.ts';
import { type Zvec, zvecEngine } from './zvec.ts';

const folder = mkdtempSync(join(tmpdir(), 'vectors-'));
afterAll(() => rmSync(folder, { recursive: true }));
const engines = await peer('vectors');

const WIDTH = 32;
/** Vectors in clusters, like those of texts; the same in every run. */
const vectors = Array.from({ length: 2500 }, (_, at) =>
  unit(Array.from({ length: WIDTH }, (_, i) => Math.sin((at % 50) * 7 + i * i) + Math.sin(at * i))),
);

function source(corpus: string, of = vectors): VectorSource & { made: number } {
  const result = {
    fingerprint: { corpus, embedder: 'test', dimensions: WIDTH },
    size: of.length,
    made: 0,
    async make() {
      result.made++;
      return of;
    },
  };
  return result;
}

/** The contract of every engine. `open` returns an engine over the same storage each time. */
function keepsTheContract(open: () => Promise<VectorEngine>): void {
  test('finds the same vectors as a full comparison, nearest first', async () => {
    using store = await (await open()).open(source('first'));
    using all = flatStore(vectors);
    let agreed = 0;
    for (let at = 0; at < 50; at++) {
      const query = unit(
        (vectors[at * 37] as Float32Array).map((value, i) => value + (i % 3) / 50),
      );
      const [found, wanted] = [await store.search(query, 10), await all.search(query, 10)];
      expect(found).toHaveLength(10);
      expect(found[0]?.score).toBeCloseTo(wanted[0]?.score ?? 0, 2);
      const scores = found.map(({ score }) => score);
      expect(scores).toEqual(scores.toSorted((a, b) => b - a));
      agreed += wanted.filter((one) => found.some(({ at: place }) => place === one.at)).length;
    }
    expect(agreed / 500).toBeGreaterThan(0.95);
  });

  test('computes vectors once for a corpus, and again for another', async () => {
    const engine = await open();
    const again = source('first');
    {
      using store = await engine.open(again);
      expect([again.made, store.size]).toEqual([0, 2500]);
    }
    const fewer = source('second', vectors.slice(0, 3));
    using store = await engine.open(fewer);
    expect(fewer.made).toBe(1);
    const found = await store.search(vectors[2] as Float32Array, 10);
    expect(found.map(({ at }) => at).toSorted((a, b) => a - b)).toEqual([0, 1, 2]);
    expect(found[0]).toEqual({ at: 2, score: expect.closeTo(1, 2) });
  });

  test('refuses a query of another width, and one that is aborted', async () => {
    using store = await (await open()).open(source('second', vectors.slice(0, 3)));
    await expect(store.search(new Float32Array(3), 1)).rejects.toThrow(
      'built with another embedder',
    );
    const reason = new Error('enough');
    const query = vectors[0] as Float32Array;
    await expect(store.search(query, 1, AbortSignal.abort(reason))).rejects.toBe(reason);
  });

  test('keeps nothing of an interrupted build', async () => {
    const engine = await open();
    const broken = { ...source('third'), make: () => Promise.reject(new Error('no power')) };
    await expect(engine.open(broken)).rejects.toThrow('no power');
    const whole = source('third', vectors.slice(0, 5));
    using store = await engine.open(whole);
    expect(whole.made).toBe(1);
    expect(await store.search(vectors[4] as Float32Array, 1)).toMatchObject([{ at: 4 }]);
  });
}

describe('vectors in the file of the index', () => {
  const database = openDatabase(join(folder, 'flat.sqlite'));
  afterAll(() => database.close());
  keepsTheContract(async () => flatEngine(database));
});

suite('zvec', engines.reason, () => {
  const open = async (): Promise<VectorEngine> =>
    zvecEngine((await engines.import('@zvec/zvec')) as unknown as Zvec, join(folder, 'zvec'));
  keepsTheContract(open);

  test('the guidelines are searched through it', async () => {
    await using guidelines = await openGuidelines({
      embedder: hashedEmbedder,
      engine: await open(),
    });
    const hits = await guidelines.search('metformin renal dosing eGFR 45', { limit: 3 });
    expect(hits.map((hit) => hit.chunk.id)).toContain('dm-metformin-renal');
  });
});

suite('pgvector', engines.reason, () => {
  let connection: Promise<PgConnection & { close(): Promise<void> }> | undefined;
  const connect = (): NonNullable<typeof connection> => (connection ??= startPglite());
  afterAll(async () => (await connection)?.close());
  keepsTheContract(async () => pgvectorEngine(await connect()));

  test('the index is used, with more candidates than requested', async () => {
    const pg = await connect();
    const engine = pgvectorEngine(pg, { table: `odd "name"` });
    using store = await engine.open(source('first'));
    expect(await store.search(vectors[7] as Float32Array, 50)).toHaveLength(50);
    const { rows } = await pg.query(
      `explain select at from "odd ""name""" order by vector <=> '[${vectors[7]?.join(',')}]'::halfvec limit 50`,
    );
    expect(JSON.stringify(rows)).toContain('Index Scan using');
  });

  async function startPglite(): Promise<PgConnection & { close(): Promise<void> }> {
    const { PGlite } = (await engines.import('@electric-sql/pglite')) as {
      PGlite: { create(options: object): Promise<PgConnection & { close(): Promise<void> }> };
    };
    const { vector } = (await engines.import('@electric-sql/pglite-pgvector')) as {
      vector: object;
    };
    return PGlite.create({ extensions: { vector } });
  }
});

/**
 * Not a Qdrant: a server that keeps the contract of its REST API as its documentation has it, and
 * refuses everything else. No Qdrant server is available on npm.
 */
describe('Qdrant, by the contract of its REST API', async () => {
  interface Point {
    readonly id: number;
    readonly vector: readonly number[];
  }
  const collections = new Map<string, { size: number; points: Map<number, Point> }>();
  const server = createServer((request, response) => {
    void answer(request, response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterAll(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  keepsTheContract(async () => qdrantEngine({ url, apiKey: 'key' }));

  test('a wrong key and an unreachable server are reported', async () => {
    await expect(qdrantEngine({ url, apiKey: 'no' }).open(source('x'))).rejects.toThrow(
      /Qdrant answered 401 to POST/,
    );
    const gone = qdrantEngine({ url: 'http://127.0.0.1:9' });
    await expect(gone.open(source('x'))).rejects.toMatchObject({ code: 'network' });
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const reply = (status: number, result: unknown): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ result, status: status === 200 ? 'ok' : { error: result } }));
    };
    const body = request.method === 'DELETE' ? {} : ((await json(request)) as never);
    if (request.headers['api-key'] !== 'key') return reply(401, 'Must provide an API key');
    const [, name = '', path = ''] = /^\/collections\/([^/?]+)(.*)$/.exec(request.url ?? '') ?? [];
    const collection = collections.get(name);
    const {
      vectors: shape,
      points,
      query,
      limit,
    } = body as {
      vectors?: { size: number };
      points?: Point[];
      query?: number[];
      limit?: number;
    };
    const call = `${request.method} ${path}`;
    if (call === 'DELETE ') return reply(200, collections.delete(name));
    if (call === 'PUT ' && shape) {
      collections.set(name, { size: shape.size, points: new Map() });
      return reply(200, true);
    }
    if (!collection) return reply(404, `Not found: Collection \`${name}\` doesn't exist!`);
    if (call === 'POST /points/count') return reply(200, { count: collection.points.size });
    if (call === 'PUT /points?wait=true' && points) {
      if (points.some(({ vector }) => vector.length !== collection.size))
        return reply(400, 'Wrong input: Vector dimension error');
      for (const point of points) collection.points.set(point.id, point);
      return reply(200, { operation_id: 0, status: 'completed' });
    }
    if (call === 'POST /points/query' && query && limit !== undefined) {
      const kept = [...collection.points.values()];
      using store = flatStore(kept.map(({ vector }) => Float32Array.from(vector)));
      const near = await store.search(Float32Array.from(query), limit);
      const found = near.map(({ at, score }) => ({ id: kept[at]?.id, version: 0, score }));
      return reply(200, { points: found });
    }
    return reply(404, `no such call: ${call}`);
  }
});
