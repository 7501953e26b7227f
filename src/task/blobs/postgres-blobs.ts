import { DuolaneError } from '../../errors.ts';
import { omitUndefined } from '../../json.ts';
import { raceAbort, sleep } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import {
  ANSWER_MS,
  checkSchema,
  openPool,
  PgConnections,
  type PostgresOptions,
  type SqlRow,
  sqlState,
} from '../postgres/connections.ts';
import { migrate } from '../postgres/schema.ts';
import {
  blobFolder,
  blobMissing,
  blobRange,
  limitedBytes,
  MAX_BLOB_BYTES,
  newBlobId,
  ownerOnly,
  piecesOf,
  splitBlobId,
} from './blob-rules.ts';
import type { Blob, BlobInfo, BlobRange, BlobRules, BlobStore } from './types.ts';

export interface PostgresBlobOptions
  extends
    Pick<PostgresOptions, 'connectionString' | 'pool' | 'schema' | 'connections' | 'answerMs'>,
    BlobRules {}

/** The size of a row. A reader and a writer have one row in memory. */
const CHUNK_BYTES = 256 * 1024;
/** A blob that has got no bytes for so long was abandoned by a crash, and is deleted. */
const ABANDONED_MS = 60 * 60 * 1000;
const SWEEP_EVERY_MS = 10 * 60 * 1000;
/** How many rows one statement deletes, so that it ends long before `answerMs`. */
const DELETED_ROWS = 100;
/** The waits before a statement is sent again after the database did not reply. */
const RETRY_MS = [100, 400, 1600, 3200];

const NOW = `(extract(epoch from clock_timestamp()) * 1000)::bigint`;

/**
 * Stores blobs in PostgreSQL 14 or later, in the schema of the log, for all replicas. A blob is
 * streamed in rows of 256 KiB and becomes visible with its last statement; what a crash leaves
 * behind is deleted after an hour. No connection is kept while a writer or a reader is slow. Needs
 * the package `pg`.
 *
 * @example
 * ```ts
 * await using blobs = await postgresBlobs({ connectionString: 'postgres://localhost/app' });
 * const info = await blobs.put({ task: 't1', mediaType: 'text/csv' }, [bytes]);
 * ```
 */
export async function postgresBlobs(
  options: PostgresBlobOptions,
): Promise<BlobStore & AsyncDisposable> {
  const { schema = 'duolane', answerMs = ANSWER_MS, connections = 4 } = options;
  checkSchema(schema);
  const { pool, close } = await openPool('postgresBlobs', { ...options, connections }, 1);
  // Closed after the migration, so that no connection stays reserved for it.
  const migrating = new PgConnections(pool, answerMs);
  try {
    await migrate(migrating, schema);
  } catch (error) {
    await migrating.close();
    await close();
    throw error;
  }
  await migrating.close();
  return new PostgresBlobs(new PgConnections(pool, answerMs), close, schema, options);
}

class PostgresBlobs implements BlobStore, AsyncDisposable {
  readonly #connections: PgConnections;
  readonly #sql: ReturnType<typeof statements>;
  readonly #maxBytes: number;
  readonly #mayRead: NonNullable<BlobRules['mayRead']>;
  readonly #closing = new AbortController();
  readonly #closePool: () => Promise<void>;
  /** The calls of `put` in progress; bounded by their callers. */
  readonly #writing = new Set<Promise<unknown>>();
  #sweptAt = -Infinity;
  /** Ends the calls in progress, deletes what they have written, and closes a created pool. */
  readonly [Symbol.asyncDispose] = disposeOnce(async () => {
    this.#closing.abort(new DuolaneError('closed', 'the blob store is closed'));
    await Promise.allSettled(this.#writing); // their callers get the failures
    await this.#connections.close();
    await this.#closePool();
  });

  constructor(
    connections: PgConnections,
    closePool: () => Promise<void>,
    schema: string,
    { maxBytes = MAX_BLOB_BYTES, mayRead = ownerOnly }: BlobRules,
  ) {
    this.#connections = connections;
    this.#sql = statements(schema);
    this.#maxBytes = maxBytes;
    this.#mayRead = mayRead;
    this.#closePool = closePool;
  }

  async put(...call: Parameters<BlobStore['put']>): Promise<BlobInfo> {
    const writing = this.#write(...call);
    this.#writing.add(writing);
    try {
      return await writing;
    } finally {
      this.#writing.delete(writing);
    }
  }

  async #write(...[blob, bytes, { signal } = {}]: Parameters<BlobStore['put']>): Promise<BlobInfo> {
    const id = newBlobId(blob.task);
    const either = this.#either(signal);
    either.throwIfAborted();
    await this.#sweep(either);
    try {
      await this.#run('begin', [id, blobFolder(blob.task)], either);
      let size = 0;
      let n = 0;
      const source = limitedBytes(bytes, this.#maxBytes, either);
      for await (const piece of piecesOf(source, CHUNK_BYTES)) {
        const added = await this.#run('add', [id, n++, piece], either);
        if (added.length === 0) throw deletedMeanwhile(id);
        size += piece.byteLength;
      }
      const info: BlobInfo = { ...blob, id, bytes: size };
      const stored = await this.#run('finish', [id, JSON.stringify(info)], either);
      if (stored.length === 0) throw deletedMeanwhile(id);
      return info;
    } catch (error) {
      // If the database cannot be reached, a later sweep deletes the rows.
      await this.#discard(id).catch(() => {});
      throw error;
    }
  }

  async get(...[id, options = {}]: Parameters<BlobStore['get']>): Promise<Blob> {
    const { start, end, caller, signal } = options;
    splitBlobId(id);
    const either = this.#either(signal);
    const [row] = await this.#run('info', [id], either);
    const info = row && (JSON.parse(String(row['info'])) as BlobInfo);
    if (!info || !(await this.#mayRead(info, caller))) throw blobMissing(id);
    const range = blobRange(info, omitUndefined<BlobRange>({ start, end }));
    return { info, range, body: this.#read(info, range, either) };
  }

  async removeTask(task: string): Promise<void> {
    const { signal } = this.#closing;
    const dropped = await this.#run('drop', [blobFolder(task)], signal);
    if (dropped.length > 0) await this.#deleteDropped(blobFolder(task), signal);
    await this.#sweep(signal);
  }

  async *#read(
    { id, bytes }: BlobInfo,
    { start, end }: Blob['range'],
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array, void> {
    if (bytes === 0) return;
    for (let at = start; at <= end;) {
      const n = Math.floor(at / CHUNK_BYTES);
      const [row] = await this.#run('chunk', [id, n], signal);
      const chunk = row?.['bytes'];
      if (!(chunk instanceof Uint8Array)) throw blobMissing(id);
      const offset = n * CHUNK_BYTES;
      const piece = chunk.subarray(at - offset, end + 1 - offset);
      // Rows that are shorter than the blob says would repeat this loop forever.
      if (piece.byteLength === 0) throw blobMissing(id);
      at += piece.byteLength;
      yield piece;
    }
  }

  /** Deletes a blob that was not stored, whatever its state is; also while the store closes. */
  async #discard(id: string): Promise<void> {
    await this.#connections.read({ text: this.#sql.dropOne }, [id]);
    await this.#deleteDropped(splitBlobId(id).folder, undefined);
  }

  /** Deletes the rows of dropped blobs. A crash in between leaves them to the next sweep. */
  async #deleteDropped(folder: string | null, signal: AbortSignal | undefined): Promise<void> {
    for (;;) {
      const [row] = await this.#run('deleteSome', [folder, DELETED_ROWS], signal);
      if (Number(row?.['chunks'] ?? 0) < DELETED_ROWS) break;
    }
    await this.#run('deleteEmpty', [folder], signal);
  }

  /** Deletes what crashed writers left behind, if the last sweep of this process is long ago. */
  async #sweep(signal: AbortSignal): Promise<void> {
    const now = performance.now();
    if (now - this.#sweptAt < SWEEP_EVERY_MS) return;
    this.#sweptAt = now;
    try {
      await this.#run('abandon', [ABANDONED_MS], signal);
      await this.#deleteDropped(null, signal);
    } catch {
      // The call that sweeps does not depend on it, and a later one sweeps again.
    }
  }

  #either(signal: AbortSignal | undefined): AbortSignal {
    return signal ? AbortSignal.any([signal, this.#closing.signal]) : this.#closing.signal;
  }

  /**
   * Runs a statement on any connection. All of them may be repeated, so one without a reply is sent
   * again, for example while the database restarts.
   */
  async #run(
    name: keyof ReturnType<typeof statements>,
    values: readonly unknown[],
    signal: AbortSignal | undefined,
  ): Promise<SqlRow[]> {
    for (let tries = 0; ; tries++) {
      signal?.throwIfAborted();
      try {
        const text = this.#sql[name];
        return await raceAbort(this.#connections.read({ text }, values), signal);
      } catch (error) {
        const waitMs = RETRY_MS[tries];
        if (signal?.aborted || waitMs === undefined || !mayPass(error)) throw error;
        await sleep(waitMs, signal);
      }
    }
  }
}

/** SQLSTATE classes of a database that starts, stops, has no connection left or has a conflict. */
const PASSING = /^(08|53|57P|40)/;

function mayPass(error: unknown): boolean {
  const state = sqlState(error);
  return DuolaneError.from(error).code === 'server' && (state === undefined || PASSING.test(state));
}

const deletedMeanwhile = (id: string): DuolaneError =>
  new DuolaneError(
    'conflict',
    `blob "${id}" was deleted while it was written: its task was deleted, or it got no bytes for an hour; write it again`,
  );

/**
 * A blob is `writing`, then `stored`, then `dropped`; only a stored one can be read. Its row is
 * locked while bytes are added, so none are added once it is dropped.
 */
function statements(schema: string) {
  const [blobs, chunks] = [`${schema}.blobs`, `${schema}.blob_chunks`];
  const dropped = `select key from ${blobs} where state = 'dropped' and ($1::text is null or folder = $1)`;
  return {
    begin: `insert into ${blobs}(id, folder, state, at, info) values($1, $2, 'writing', ${NOW}, '')
      on conflict (id) do nothing`,
    add: `with blob as (
        update ${blobs} set at = ${NOW} where id = $1 and state = 'writing' returning key
      ), added as (
        insert into ${chunks}(blob, n, bytes) select key, $2::integer, $3::bytea from blob
        on conflict (blob, n) do nothing
      ) select key from blob`,
    finish: `update ${blobs} set state = 'stored', info = $2, at = ${NOW}
      where id = $1 and (state = 'writing' or (state = 'stored' and info = $2)) returning key`,
    info: `select info from ${blobs} where id = $1 and state = 'stored'`,
    chunk: `select c.bytes from ${blobs} b join ${chunks} c on c.blob = b.key
      where b.id = $1 and b.state = 'stored' and c.n = $2`,
    drop: `update ${blobs} set state = 'dropped' where folder = $1 returning key`,
    dropOne: `update ${blobs} set state = 'dropped' where id = $1`,
    abandon: `update ${blobs} set state = 'dropped'
      where state = 'writing' and at < ${NOW} - $1::bigint`,
    deleteSome: `with picked as (
        select c.blob, c.n from ${chunks} c where c.blob in (${dropped}) limit $2
      ), gone as (
        delete from ${chunks} c using picked p where c.blob = p.blob and c.n = p.n
      ) select count(*) as chunks from picked`,
    deleteEmpty: `delete from ${blobs} b where b.key in (${dropped})
      and not exists (select from ${chunks} c where c.blob = b.key)`,
  } as const;
}
